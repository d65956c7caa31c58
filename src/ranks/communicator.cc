#include "heed/communicator.h"

#include <cstring>

namespace heed::inline v0 {

void Communicator::check_rank(const char* operation, int other) const {
  if (other == kNobody || (other >= 0 && other < size() && other != rank())) return;
  throw ShapeError(std::string(operation) + ": rank " + std::to_string(other) + " of " + std::to_string(size()) +
                   ", from rank " + std::to_string(rank()) + "; pass another of 0 to " + std::to_string(size() - 1));
}

std::unique_ptr<Communicator::Transfer> Communicator::start(const char* operation, std::span<const std::byte> out,
                                                            int to, std::span<std::byte> in, int from) {
  check_rank(operation, to);
  check_rank(operation, from);
  std::unique_ptr<Transfer> transfer = begin(operation, out, to, in, from);
  if (to != kNobody) ++sent_.messages, sent_.bytes += static_cast<int64_t>(out.size());
  return transfer;
}

void Communicator::fail(const std::string& reason) noexcept { tell(reason); }

// Everybody hears of twice as many in each round (Hensgen, Finkel and Manber 1988, "Two algorithms for barrier
// synchronization").
void Communicator::barrier() {
  for (int distance = 1; distance < size(); distance *= 2)
    exchange("barrier", {}, (rank() + distance) % size(), {}, (rank() + size() - distance) % size());
}

// By a binomial tree: the rank that differs in the lowest set bit of the place has the bytes first.
void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  if (root != rank()) check_rank("broadcast", root);
  const int place = (rank() + size() - root) % size();  // the root's is 0
  int bit = 1;
  for (; bit < size() && !(place & bit); bit *= 2) {
  }
  if (place != 0) exchange("broadcast", {}, kNobody, bytes, (place - bit + root) % size());
  for (bit /= 2; bit > 0; bit /= 2)
    if (place + bit < size()) exchange("broadcast", bytes, (place + bit + root) % size(), {}, kNobody);
}

namespace {

/// The size in front of the bytes, which the other side does not know.
void exchange_sized(Communicator& ranks, const char* operation, std::span<const std::byte> out, int to,
                    std::vector<std::byte>* in, int from) {
  const uint64_t out_size = out.size();
  uint64_t in_size = 0;
  ranks.exchange(operation, std::as_bytes(std::span(&out_size, 1)), to,
                 in ? std::as_writable_bytes(std::span(&in_size, 1)) : std::span<std::byte>(), from);
  if (in) in->resize(in_size);
  const int nobody = Communicator::kNobody;
  ranks.exchange(operation, out, out_size ? to : nobody, in ? std::span(*in) : std::span<std::byte>(),
                 in_size ? from : nobody);
}

}  // namespace

std::vector<std::vector<std::byte>> Communicator::gather(std::span<const std::byte> bytes, int root) {
  if (rank() != root) {
    check_rank("gather", root);
    exchange_sized(*this, "gather", bytes, root, nullptr, kNobody);
    return {};
  }
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(size()));
  for (int other = 0; other < size(); ++other) {
    std::vector<std::byte>& into = all[static_cast<size_t>(other)];
    if (other == rank())
      into.assign(bytes.begin(), bytes.end());
    else
      exchange_sized(*this, "gather", {}, kNobody, &into, other);
  }
  return all;
}

void Communicator::require_same(const char* operation, const std::string& own, const char* what, const char* remedy) {
  const std::vector<std::vector<std::byte>> all = all_gather(std::as_bytes(std::span(own)));
  const auto text = [&](size_t of) {
    return "'" + std::string(reinterpret_cast<const char*>(all[of].data()), all[of].size()) + "'";
  };
  for (size_t other = 1; other < all.size(); ++other) {
    if (all[other] == all[0]) continue;
    // All find it, and rank 0 is to say it: its failure ends this call of the others.
    std::byte none{};
    if (rank() != 0) exchange(operation, {}, kNobody, std::span(&none, 1), 0);
    throw RankError(std::string(operation) + ": " + what + " of rank 0 is " + text(0) + " and of rank " +
                        std::to_string(other) + " " + text(other) + "; " + remedy,
                    false);
  }
}

std::vector<std::vector<std::byte>> Communicator::all_gather(std::span<const std::byte> bytes) {
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(size()));
  all[static_cast<size_t>(rank())].assign(bytes.begin(), bytes.end());
  for (int distance = 1; distance < size(); ++distance) {
    const int from = (rank() + size() - distance) % size();
    exchange_sized(*this, "all_gather", bytes, (rank() + distance) % size(), &all[static_cast<size_t>(from)], from);
  }
  return all;
}

std::string text_of_lead(Communicator& ranks, std::string text) {
  text.resize(of_lead(ranks, text.size()));
  ranks.broadcast(std::as_writable_bytes(std::span(text)));
  return text;
}

std::vector<std::string> joined_lines(Communicator& ranks, const std::vector<std::string>& own) {
  std::vector<char> letters;
  std::vector<size_t> lengths;
  for (const std::string& line : own) {
    letters.insert(letters.end(), line.begin(), line.end());
    lengths.push_back(line.size());
  }
  const std::vector<char> all = joined(ranks, letters);
  std::vector<std::string> lines;
  const char* next = all.data();
  for (const size_t length : joined(ranks, lengths)) {
    lines.emplace_back(next, length);
    next += length;
  }
  return lines;
}

}  // namespace heed::inline v0
