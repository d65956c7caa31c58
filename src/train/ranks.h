// What the ranks of a training tell each other. Rank 0 leads: it reads and writes the directory, and its clock counts.
#pragma once

#include <variant>
#include <vector>

#include "heed/communicator.h"
#include "heed/optim.h"
#include "heed/task.h"

namespace heed::inline v0 {

/// The communicator of a training that nobody shares.
Communicator& alone();

/// Rank 0's numbers into the others' `tensor`, contiguous and of the same size everywhere.
void share_of_lead(Communicator& ranks, const Tensor& tensor);

/// Throws RankError with the first difference.
void require_same_training(Communicator& ranks, const Recipe& recipe);

/// The slice of a rank of a parameter arena, and
IndexRange slice_of_arena(const Communicator& ranks, const ParameterArena& arena);
/// on rank 0 all slices together; undefined elsewhere.
Tensor gather_slices(Communicator& ranks, const ParameterArena& arena, const Tensor& slice);
/// All ranks' slices of the values to all.
void share_slices(Communicator& ranks, const ParameterArena& arena);
/// The norm of gradients of which each rank has its slice.
double gradient_norm(Communicator& ranks, const ParameterArena& arena);

/// All ranks in the order of the sums, where `context` neighbours have the sequences of one batch: first those with the
/// first part of the sequences, then those with the second, and so on.
std::vector<int> by_part(int ranks, int64_t context);
/// Of so many ranks in that order, in `groups` that compute a batch each, those of one group.
std::vector<int> context_of(int group, int groups, int ranks);

/// Leaves of the tree that adds so many batches.
int64_t leaves_for(int64_t batches);

/// The gradients of an update's batches, added in pairs as TreeSum does: the bits do not depend on who computed which.
class GradientSum {
 public:
  GradientSum(Communicator& ranks, const ParameterArena& arena, int64_t batches);
  /// Of the batches of an update: this rank's. Beyond `batches` there are leaves of nothing.
  IndexRange leaves() const { return leaves_; }
  /// Takes the gradients in the arena as those of the next leaf.
  void add();
  /// This rank's slice of the sum into the arena.
  void finish();

 private:
  Communicator& ranks_;
  const ParameterArena& arena_;
  IndexRange leaves_;
  std::variant<TreeSum<float>, TreeSum<double>> sum_;
};

}  // namespace heed::inline v0
