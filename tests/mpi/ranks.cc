// A rank of tests/mpi/mpirun.py: mpi_ranks TASK. What is the same for any number of ranks goes to standard output, from
// rank 0.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "heed/mpi.h"
#include "heed/tree_sum.h"

namespace {

/// FNV-1a
uint64_t hash_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return hash;
}

void print(heed::Communicator& ranks, const char* name, std::span<const std::byte> bytes) {
  if (ranks.rank() == 0) std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash_of(bytes)));
}

/// Of a leaf, the same for any number of ranks.
std::vector<float> numbers(int64_t leaf, int64_t length) {
  std::vector<float> list;
  uint64_t state = static_cast<uint64_t>(leaf) * 77 + 1;
  for (int64_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    list.push_back(static_cast<float>(state >> 40) / static_cast<float>(1 + (state & 1023)));
  }
  return list;
}

void sums(heed::Communicator& ranks) {
  for (const int64_t length : {5, 300001}) {
    heed::TreeSum<float> sum(16, length, ranks.rank(), ranks.size());
    for (int64_t leaf = sum.leaves().begin; leaf < sum.leaves().end; ++leaf) sum.add(numbers(leaf, length));
    std::vector<float> total(static_cast<size_t>(length));
    sum.total(ranks, total);
    print(ranks, "sum", std::as_bytes(std::span(total)));
    const auto all = ranks.all_gather(std::as_bytes(std::span(total)));
    for (const auto& other : all)
      if (hash_of(other) != hash_of(all[0])) throw heed::Error("the total differs between ranks");
  }
}

/// More than one piece of MPI's messages.
void large(heed::Communicator& ranks) {
  if (ranks.size() != 2) throw heed::Error("start 2 ranks");
  std::vector<std::byte> block((size_t{1} << 30) + 5);
  if (ranks.rank() == 0) block[size_t{1} << 30] = std::byte{42}, block.back() = std::byte{7};
  ranks.broadcast(block);
  if (block[size_t{1} << 30] != std::byte{42} || block.back() != std::byte{7}) throw heed::Error("other bytes came");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string task = argc > 1 ? argv[1] : "";
  return heed::mpi::run(
      [&](heed::Communicator& ranks) {
        const int last = ranks.size() - 1;
        std::byte one{};
        if (task == "sums") return sums(ranks);
        if (task == "large") return large(ranks);
        if (task == "throw") {
          if (ranks.rank() == last) throw heed::FormatError("corpus.tsv: line 7 has no tab; write one");
          for (;;) ranks.barrier();
        } else if (task == "late") {  // longer than the limit
          if (ranks.rank() == last) std::this_thread::sleep_for(std::chrono::seconds(30));
          ranks.barrier();
        } else if (task == "killed") {
          if (ranks.rank() == last) std::raise(SIGKILL);
          ranks.barrier();
        } else if (task == "unlike") {
          std::vector<std::byte> block(ranks.rank() == 0 ? 40 : 80);
          ranks.broadcast(block);
          for (;;) ranks.barrier();
        } else if (task == "wrong") {
          ranks.send(std::span(&one, 1), 99);
        } else {
          throw heed::UsageError("mpi_ranks: no task '" + task + "'");
        }
      },
      task == "late" ? 2 : 60);
}
