// Attention over ranks that are threads, and this process as a rank of MPI: that opens libheed_messages from the prefix
// heed was installed to, where heed was built with an MPI.
#include <heed/attention_over_ranks.h>
#include <heed/mpi.h>

#include <cstdio>

int main() {
  const heed::Tensor all = heed::Tensor::full({1, 2, 100, 8}, 1);
  bool right = true;
  heed::run_ranks(2, [&](heed::Communicator& ranks) {
    const heed::Split split = heed::Split::contiguous(100, 2);
    const heed::Tensor own = split.take(all, 2, ranks.rank());
    const heed::Tensor out = heed::mpi::attention(ranks, own, own, own, {split, split});
    for (const float x : out.span<float>()) right = right && x == 1;
  });
  try {
    std::printf("mpi %d rank\n", heed::mpi::connect()->size());
  } catch (const heed::UsageError& e) {
    std::printf("mpi %s\n", e.what());
  }
  return right ? 0 : 1;
}
