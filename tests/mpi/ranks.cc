// A rank of tests/mpi/mpirun.py: mpi_ranks TASK. What is the same for any number of ranks goes to standard output, from
// rank 0.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "heed/attention_over_ranks.h"
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

/// Standard normal, the same everywhere.
heed::Tensor random_tensor(const heed::Dims& shape, unsigned seed) {
  const heed::Tensor t = heed::Tensor::empty(shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& x : t.span<float>()) x = normal(random);
  return t;
}

/// All ranks' rows of a sequence along dimension 2, hashed together in their order.
void print_rows(heed::Communicator& ranks, const char* name, const heed::Tensor& own, const heed::Split& split) {
  const auto all = ranks.gather(heed::as_bytes(own.contiguous().span<float>()));
  if (ranks.rank() != 0) return;
  heed::Dims shape = own.shape();
  shape[2] = split.length();
  const heed::Tensor whole = heed::Tensor::empty(shape);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    shape[2] = split.rows(rank);
    const heed::Tensor rows =
        heed::Tensor::borrow(const_cast<std::byte*>(all[static_cast<size_t>(rank)].data()), heed::DType::f32, shape);
    int64_t at = 0;
    for (const heed::IndexRange& piece : split.of(rank)) {
      whole.slice(2, piece.begin, piece.end).copy_from(rows.slice(2, at, at + piece.size()));
      at += piece.size();
    }
  }
  print(ranks, name, heed::as_bytes(whole.span<float>()));
}

void attention(heed::Communicator& ranks) {
  const int64_t L = 1000;
  const heed::Tensor q = random_tensor({1, 8, L, 32}, 1), k = random_tensor({1, 4, L, 32}, 2),
                     v = random_tensor({1, 4, L, 32}, 3), grad = random_tensor({1, 8, L, 32}, 4);
  const heed::Split split = heed::Split::zigzag(L, ranks.size());
  const auto own = [&](const heed::Tensor& t) { return split.take(t, 2, ranks.rank()); };
  const heed::AttentionOptions options{.causal = heed::Causal::top_left, .dropout = 0.1, .want_lse = true};
  const heed::AttentionResult one = heed::attention(q, k, v, options);
  for (const heed::mpi::Meeting meeting :
       {heed::mpi::Meeting::exact, heed::mpi::Meeting::heads, heed::mpi::Meeting::ring}) {
    const heed::mpi::OverRanks over{split, split, meeting};
    const heed::AttentionResult r = heed::mpi::attention(ranks, own(q), own(k), own(v), over, options);
    const heed::AttentionGradients g =
        heed::mpi::attention_backward(ranks, own(grad), own(q), own(k), own(v), r, over, options);
    if (meeting == heed::mpi::Meeting::ring) {  // other bits, near by
      const auto found = r.out.contiguous().span<float>();
      const heed::Tensor near = own(one.out);
      for (size_t i = 0; i < found.size(); ++i)
        if (!(std::fabs(found[i] - near.span<float>()[i]) < 1e-5f)) throw heed::Error("the ring is far from one rank");
      continue;
    }
    print_rows(ranks, "out", r.out, split);
    print_rows(ranks, "dq", g.q, split);
    print_rows(ranks, "dk", g.k, split);
    print_rows(ranks, "dv", g.v, split);
  }
}

/// The most memory that this process has held, in bytes.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stod(line.substr(6));
  throw heed::Error("no peak in /proc/self/status");
}

/// What a forward and a backward hold at most on any rank, in shares of q, k, v, out and their gradients of the whole.
void memory(heed::Communicator& ranks, heed::mpi::Meeting meeting) {
  const int64_t L = 8192, H = 16, D = 64, rows = L / ranks.size();
  heed::set_threads(1);
  const heed::Split split = heed::Split::contiguous(L, ranks.size());
  const double before = peak_memory();
  const heed::Tensor q = random_tensor({1, H, rows, D}, 1), k = random_tensor({1, H, rows, D}, 2),
                     v = random_tensor({1, H, rows, D}, 3), grad = random_tensor({1, H, rows, D}, 4);
  const heed::AttentionOptions options{.causal = heed::Causal::top_left, .want_lse = true};
  const heed::mpi::OverRanks over{split, split, meeting};
  const heed::AttentionResult r = heed::mpi::attention(ranks, q, k, v, over, options);
  heed::mpi::attention_backward(ranks, grad, q, k, v, r, over, options);
  const double used = peak_memory() - before;
  const auto all = ranks.gather(std::as_bytes(std::span(&used, 1)));
  double most = 0;
  for (const auto& one : all) {
    double x = 0;
    std::memcpy(&x, one.data(), sizeof x);
    most = std::max(most, x);
  }
  if (ranks.rank() == 0) std::printf("%.4f\n", most / static_cast<double>(8 * H * L * D * 4));
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
        if (task == "attention") return attention(ranks);
        if (task == "memory-exact") return memory(ranks, heed::mpi::Meeting::exact);
        if (task == "memory-ring") return memory(ranks, heed::mpi::Meeting::ring);
        if (task == "memory-heads") return memory(ranks, heed::mpi::Meeting::heads);
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
