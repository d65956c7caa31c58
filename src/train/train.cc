// The training loop. Everything that decides the weights is in TrainState, the arenas and the ring of checkpoints, so
// a run may end between any two instructions.
#include "heed/train.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "heed/finite.h"
#include "heed/lora.h"
#include "heed/profile.h"
#include "heed/random.h"
#include "heed/task.h"
#include "ranks/some_ranks.h"
#include "train/ranks.h"
#include "train/state.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kMostPieces = 1 << 20;  // of a text in one batch

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Trainer {
 public:
  Trainer(Task& task, const TrainOptions& options, const std::string& directory, const TrainHooks& hooks)
      : task_(task),
        options_(options),
        directory_(directory),
        hooks_(hooks),
        all_ranks_(hooks.ranks ? *hooks.ranks : alone()),
        recipe_(recipe_of(task, options)) {}

  TrainResult run() {
    require_same_training(all_ranks_, recipe_);
    if (options_.context_ranks > 1)
      task_.split_over(context_.emplace(ranks_, context_of(group(), groups(), ranks_.size())), hooks_.attention);
    if (leads()) files_.emplace(directory_);  // until the end, so that nobody else trains here
    const bool resumed = load_state();
    if (const auto found = first_non_finite(task_.model()))
      throw TrainingError("train: " + *found + "; the model is damaged: begin with another copy");
    if (leads()) {
      for (const auto& [name, sum] : checksums_of_program_files(directory_)) state_.files[name] = sum;
      log_.emplace(directory_, state_.log_bytes);
    }
    last_save_ = window_start_ = Clock::now();
    read_clock();
    start_ = seconds();
    seconds_before_ = resumed ? state_.seconds : 60 * options_.minutes_before;
    updates_before_ = state_.update;
    task_.model().train();

    std::optional<StopReason> reason = limit_reached();
    const bool nothing_done = resumed && reason && state_.validated_at == state_.update;
    if (resumed && !nothing_done)
      message("goes on after update " + std::to_string(state_.update) + " in epoch " + std::to_string(state_.epoch));
    while (!reason) {
      batches_in_epoch_ = task_.begin_epoch(state_.epoch);
      if (state_.batch > batches_in_epoch_)
        throw FormatError(directory_ + "/" + kStateFile + ": batch " + std::to_string(state_.batch) + " of " +
                          std::to_string(batches_in_epoch_) + "; the state is broken, start over in another directory");
      while (!reason && state_.batch < batches_in_epoch_) {
        state_.batch += update();
        read_clock();
        const bool epoch_ends = state_.batch == batches_in_epoch_;
        const int64_t epoch = state_.epoch;
        if (epoch_ends) {  // before any save: a state never stands behind the last batch
          ++state_.epoch;
          state_.batch = 0;
        }
        if (hooks_.step) {
          const double left = minutes_left();
          hooks_.step({.epoch = epoch,
                       .update = state_.update,
                       .loss = loss_,
                       .nll = nll_,
                       .done = left < 0 ? -1 : progress(),
                       .minutes_left = left});
        }
        if (state_.update % options_.log_every == 0) report(epoch);
        const bool due = options_.validate_every > 0 ? state_.update % options_.validate_every == 0 : epoch_ends;
        if (due) {
          validate_and_save(epoch);
        } else if (of_lead(ranks_, save_due())) {
          save();
        }
        reason = limit_reached();
        if (of_lead(ranks_, hooks_.stop && hooks_.stop()) && !reason) {
          reason = StopReason::interrupted;
          if (last_saved_update_ != state_.update) save();
        }
        if (epoch_ends) break;
      }
    }
    if (*reason != StopReason::interrupted && state_.validated_at != state_.update) validate_and_save(state_.epoch);
    read_clock();
    if (*reason == StopReason::max_minutes) keep_end();
    log_.reset();
    files_.reset();
    return {.reason = *reason,
            .nothing_done = nothing_done,
            .epoch = state_.epoch,
            .update = state_.update,
            .minutes = elapsed() / 60,
            .best_nll = state_.best_nll.value_or(0),
            .best_bleu = state_.best_bleu.value_or(-1),
            .best_update = state_.best_update,
            .average_is_best = state_.average_is_best};
  }

 private:
  // Ranks that compute the same batches.
  int groups() const { return ranks_.size() / static_cast<int>(options_.context_ranks); }
  int group() const { return ranks_.rank() % groups(); }

  void message(const std::string& text) const {
    if (hooks_.message) hooks_.message(text);
  }

  bool leads() const { return ranks_.rank() == 0; }

  // All ranks live by one clock, which is read where all of them are.
  void read_clock() {
    now_ = of_lead(ranks_, hooks_.seconds ? hooks_.seconds()
                                          : std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
  }
  double seconds() const { return now_; }
  double elapsed() const { return seconds_before_ + seconds() - start_; }
  // Of max_minutes, with a validation as long as the last one, which ends the training.
  double used_minutes() const { return (elapsed() + validation_seconds_) / 60; }

  // How much of the training is done, by the limit that comes first.
  double progress() const {
    const auto part = [](double done, double limit) { return limit > 0 ? done / limit : 0; };
    const double epochs = static_cast<double>(state_.epoch - 1) +
                          part(static_cast<double>(state_.batch), static_cast<double>(batches_in_epoch_));
    return std::min(
        std::max({part(static_cast<double>(state_.update), static_cast<double>(options_.max_updates)),
                  part(epochs, static_cast<double>(options_.max_epochs)), part(used_minutes(), options_.max_minutes)}),
        1.0);
  }

  std::optional<StopReason> limit_reached() const {
    if (options_.max_updates > 0 && state_.update >= options_.max_updates) return StopReason::max_updates;
    if (options_.max_epochs > 0 && state_.epoch > options_.max_epochs) return StopReason::max_epochs;
    if (options_.patience > 0 && state_.without_progress >= options_.patience) return StopReason::patience;
    if (options_.max_minutes > 0 && std::max(used_minutes(), state_.ended_minutes) >= options_.max_minutes)
      return StopReason::max_minutes;
    return {};
  }

  [[noreturn]] void not_finite(const std::string& what) const {
    std::string kept = "nothing was saved yet";
    if (last_saved_update_ >= 0) kept = "the state after update " + std::to_string(last_saved_update_) + " is kept";
    throw TrainingError("train: " + what + " is not finite in update " + std::to_string(state_.update + 1) + "; " +
                        kept + "; start over with a lower learning rate or a longer warm-up");
  }

  // Loss, nll, tokens, sequences and flop of batches, as numbers that add up.
  using Measured = std::array<double, 5>;

  // Leaves the gradient of a batch in the arena: of its mean loss where it is the update's only one, else of the sum
  // over its tokens, whose mean is taken when all are there.
  Measured backward(int64_t leaf) {
    // Where an update has several batches each has draws of its own, wherever it is computed.
    if (options_.accumulate > 1) default_generator().stream = first_stream(leaf);
    const auto [loss, parts, sequences, flop] = task_.loss(state_.batch + leaf);
    if (leaves_of_update_ == 1) {
      loss.backward();
    } else {
      const Tensor tokens = Tensor::zeros(loss.shape(), loss.dtype());
      tokens.fill(static_cast<double>(parts.count));
      loss.backward(tokens);
    }
    // A loss that is not finite is so in the sum, too.
    const double mean = loss.value().item();
    return {std::isfinite(mean) ? parts.loss : mean, parts.nll, static_cast<double>(parts.count),
            static_cast<double>(sequences), flop};
  }
  uint64_t first_stream(int64_t leaf) const {
    constexpr int kDraws = 24;  // 2^24 of a batch
    return static_cast<uint64_t>((state_.update + 1) * options_.accumulate + leaf) << kDraws;
  }

  // Returns how many batches went into it.
  int64_t update() {
    arena_.zero_gradients();
    const int64_t batches = std::min(options_.accumulate, batches_in_epoch_ - state_.batch);
    leaves_of_update_ = leaves_for(batches) * options_.context_ranks;
    Measured sum{};
    if (leaves_of_update_ == 1 && ranks_.size() == 1) {
      sum = backward(0);
    } else {
      sum = update_over_ranks(batches);
    }
    const auto [loss, nll, tokens, sequences, flop] = sum;
    if (!std::isfinite(loss)) not_finite("the loss");
    const double to_mean = leaves_of_update_ == 1 ? 1 : 1 / std::max(tokens, 1.0);
    gradient_norm_ = to_mean * (ranks_.size() == 1 ? arena_.gradient_norm() : gradient_norm(ranks_, arena_));
    if (!std::isfinite(gradient_norm_)) not_finite("the gradient");
    read_clock();
    rate_ = options_.learning_rate.at(state_.update + 1, progress());
    {
      const ProfileScope profile("optimiser");
      optimiser_.step(rate_, to_mean * clip_scale(gradient_norm_, options_.clip_norm));
    }
    share_slices(ranks_, arena_);
    if (options_.accumulate > 1) default_generator().stream = first_stream(options_.accumulate);
    ++state_.update;
    loss_ = loss / std::max(tokens, 1.0);
    nll_ = nll / std::max(tokens, 1.0);
    Progress& window = state_.window;
    window.loss += loss;
    window.nll += nll;
    window.target_tokens += static_cast<int64_t>(tokens);
    window.sentences += static_cast<int64_t>(sequences);
    ++window.updates;
    measured_tokens_ += static_cast<int64_t>(tokens);
    measured_flop_ += flop;
    return batches;
  }

  // A batch is a leaf of the sums or, where its sequences are split, one for each part of them: those of the first part
  // of all batches, then those of the second, and so on. A rank has leaves of one part.
  Measured update_over_ranks(int64_t batches) {
    GradientSum gradients(ranks_, arena_, leaves_of_update_);
    const IndexRange own = gradients.leaves();
    Measured sum{};
    TreeSum<double> measured(leaves_of_update_, static_cast<int64_t>(sum.size()), ranks_.rank(), ranks_.size());
    for (int64_t leaf = own.begin; leaf < own.end; ++leaf) {
      if (leaf != own.begin) arena_.zero_gradients();
      const int64_t batch = leaf % leaves_for(batches);
      measured.add(batch < batches ? backward(batch) : Measured{});
      gradients.add();
    }
    gradients.finish();
    measured.total(ranks_, sum);
    return sum;
  }

  double minutes_left() const {
    const auto done = static_cast<double>(state_.update - updates_before_);
    double left = -1;
    const auto limit = [&](double minutes) { left = left < 0 ? minutes : std::min(left, minutes); };
    const double minutes_per_update = done > 0 ? (elapsed() - seconds_before_) / 60 / done : 0;
    if (options_.max_updates > 0) limit(static_cast<double>(options_.max_updates - state_.update) * minutes_per_update);
    if (options_.max_epochs > 0)
      limit(static_cast<double>((options_.max_epochs - state_.epoch + 1) * batches_in_epoch_ - state_.batch) /
            static_cast<double>(options_.accumulate) * minutes_per_update);
    if (options_.max_minutes > 0) limit(options_.max_minutes - used_minutes());
    return left < 0 ? left : std::max(left, 0.0);
  }

  void report(int64_t epoch) {
    const Progress& w = state_.window;
    const auto tokens = static_cast<double>(std::max<int64_t>(w.target_tokens, 1));
    const double seconds = std::max(seconds_since(window_start_), 1e-9);
    const TrainProgress p{.epoch = epoch,
                          .update = state_.update,
                          .sentences = w.sentences,
                          .target_tokens = w.target_tokens,
                          .loss = w.loss / tokens,
                          .nll = w.nll / tokens,
                          .gradient_norm = gradient_norm_,
                          .learning_rate = rate_,
                          .words_per_second = static_cast<double>(measured_tokens_) / seconds,
                          .gflops = measured_flop_ / seconds * 1e-9,
                          .minutes = elapsed() / 60,
                          .minutes_left = minutes_left()};
    write_log(Json{{"type", "train"},
                   {"epoch", p.epoch},
                   {"update", p.update},
                   {"sentences", p.sentences},
                   {"target_tokens", p.target_tokens},
                   {"loss", p.loss},
                   {"nll", p.nll},
                   {"gradient_norm", p.gradient_norm},
                   {"learning_rate", p.learning_rate},
                   {"words_per_second", p.words_per_second},
                   {"gflops", p.gflops},
                   {"minutes", p.minutes}}
                  .dump());
    if (hooks_.progress) hooks_.progress(p);
    state_.window = {};
    restart_measurement();
  }

  void write_log(const std::string& line) {
    if (log_) log_->write(line);
  }

  void restart_measurement() {
    measured_tokens_ = 0;
    measured_flop_ = 0;
    window_start_ = Clock::now();
  }

  bool save_due() const {
    if (options_.save_every > 0 && state_.update % options_.save_every == 0) return true;
    return options_.save_minutes > 0 && seconds_since(last_save_) >= 60 * options_.save_minutes;
  }

  // The mean of the kept checkpoints and the weights as they are; undefined when that is one alone.
  Tensor average() const {
    if (options_.average <= 1 || state_.checkpoints.empty()) return {};
    const Tensor mean = leads() ? average_of_files() : Tensor::empty({arena_.size()}, arena_.dtype());
    share_of_lead(ranks_, mean);
    return mean;
  }
  Tensor average_of_files() const {
    const Tensor sum = Tensor::zeros({arena_.size()}, DType::f64);
    const auto add = [&](const Tensor& values) {
      const Tensor doubles = values.to(DType::f64);
      const double* from = doubles.data<double>();
      double* to = sum.data<double>();
      for (int64_t i = 0; i < sum.numel(); ++i) to[i] += from[i];
    };
    const Tensor one = Tensor::zeros({arena_.size()}, arena_.dtype());
    for (const int64_t update : state_.checkpoints) {
      const SafetensorsFile file(directory_ + "/" + checkpoint_file(update));
      for (const auto& [name, view] : arena_.named(one)) view.copy_from(file.tensor(name));
      add(one);
    }
    add(arena_.values());
    const double factor = 1.0 / static_cast<double>(state_.checkpoints.size() + 1);
    for (double& x : sum.span<double>()) x *= factor;
    return sum.to(arena_.dtype());
  }

  void validate_and_save(int64_t epoch) {
    const auto started = Clock::now();
    const double begun = seconds();
    const bool has_validation = task_.validation_batches() > 0;
    if (static_cast<int64_t>(state_.checkpoints.size()) >= options_.average && !state_.checkpoints.empty()) {
      no_longer_averaged_.push_back(state_.checkpoints.front());
      state_.checkpoints.erase(state_.checkpoints.begin());
    }
    const Tensor mean = average();
    Validation v{.epoch = epoch, .update = state_.update};
    if (has_validation) {
      const Quality single = quality(/*of_average=*/false);
      Quality best = single;
      v.nll = single.nll, v.bleu = single.bleu;
      if (mean.defined()) {
        const Tensor current = arena_.values().clone();
        arena_.values().copy_from(mean);
        const Quality average = quality(/*of_average=*/true);
        arena_.values().copy_from(current);
        v.average_nll = average.nll, v.average_bleu = average.bleu;
        v.average_is_best = is_better(average, single);
        if (v.average_is_best) best = average;
      }
      v.better = !state_.best_nll || is_better(best, {*state_.best_nll, state_.best_bleu.value_or(-1)});
      state_.without_progress = v.better ? 0 : state_.without_progress + 1;
      if (v.better) {
        state_.best_nll = best.nll;
        if (options_.criterion == Criterion::bleu) state_.best_bleu = best.bleu;
      }
    } else {  // nothing to compare by: the latest is the best
      v.better = true;
      v.average_is_best = mean.defined();
    }
    if (v.better) {
      state_.best_update = state_.update;
      state_.average_is_best = v.average_is_best;
    }
    v.without_progress = state_.without_progress;
    state_.validated_at = state_.update;

    Json line{{"type", "validation"}, {"epoch", v.epoch}, {"update", v.update}};
    if (has_validation) {
      line["nll"] = v.nll;
      if (mean.defined()) line["average_nll"] = v.average_nll;
      if (v.bleu >= 0) line["bleu"] = v.bleu;
      if (v.average_bleu >= 0) line["average_bleu"] = v.average_bleu;
    }
    line["best"] = !v.better ? "earlier" : v.average_is_best ? "average" : "single";
    line["without_progress"] = v.without_progress;
    const Examination examination = examine(v);
    for (const auto& [name, value] : examination.figures) line[name] = value;
    read_clock();
    line["minutes"] = elapsed() / 60;
    write_log(line.dump());

    const Tensor best = !v.better ? Tensor() : v.average_is_best ? mean : arena_.values();
    save(best, /*new_checkpoint=*/options_.average > 1, examination);
    if (hooks_.validation) hooks_.validation(v);
    window_start_ += Clock::now() - started;  // words/s are of training
    read_clock();
    validation_seconds_ = seconds() - begun;
  }

  // What a hook makes of the model, without a trace in the training.
  template <class Ask>
  auto aside(Ask&& ask) {
    const Evaluation evaluation(task_.model());
    const Generator before = default_generator();
    auto answer = ask();
    default_generator() = before;
    return answer;
  }

  struct Quality {
    double nll = 0, bleu = -1;
  };
  Quality quality(bool of_average) {
    Quality q{.nll = validation_nll()};
    if (!std::isfinite(q.nll)) not_finite("the validation loss");
    if (options_.bleu_sentences > 0 && (!of_average || options_.criterion == Criterion::bleu))
      q.bleu = aside([&] { return hooks_.bleu(options_.bleu_sentences); });
    return q;
  }
  // Batches are dealt over the ranks, and their losses added in order.
  double validation_nll() {
    const Evaluation evaluation(task_.model());
    const IndexRange own = leaves_of(task_.validation_batches(), group(), groups());
    std::vector<functional::LossParts> parts;
    for (int64_t batch = own.begin; batch < own.end; ++batch) parts.push_back(task_.validation(batch));
    double nll = 0;
    int64_t count = 0;
    for (const functional::LossParts& part : joined(ranks_, parts)) nll += part.nll, count += part.count;
    return nll / static_cast<double>(std::max<int64_t>(count, 1));
  }
  bool is_better(const Quality& one, const Quality& other) const {
    if (options_.criterion == Criterion::bleu && one.bleu != other.bleu) return one.bleu > other.bleu;
    return one.nll < other.nll;
  }

  Examination examine(const Validation& v) {
    if (!hooks_.examine) return {};
    return aside([&] { return hooks_.examine(v); });
  }

  void save(const Tensor& best = {}, bool new_checkpoint = false, const Examination& examination = {}) {
    const Tensor m = gather_slices(ranks_, arena_, optimiser_.m), v = gather_slices(ranks_, arena_, optimiser_.v);
    if (leads()) write_files(m, v, best, new_checkpoint, examination);
    if (new_checkpoint) state_.checkpoints.push_back(state_.update);
    no_longer_averaged_.clear();
    last_save_ = Clock::now();
    last_saved_update_ = state_.update;
  }

  void write_files(const Tensor& m, const Tensor& v, const Tensor& best, bool new_checkpoint,
                   const Examination& examination) {
    log_->sync();
    const auto write_tensors = [](const NamedTensors& tensors) {
      return [tensors](FileWriter& file) { write_safetensors(file, tensors); };
    };
    const auto write = [&](const std::string& name, const FillFile& fill) {
      state_.files[name] = files_->write(name, fill);
    };
    write_model(best, write);
    if (new_checkpoint) {
      write(checkpoint_file(state_.update), write_tensors(arena_.named(arena_.values())));
    }
    for (const auto& [name, content] : examination.files) files_->write(name, content);
    if (!std::exchange(has_saved_, true))
      for (const auto& [name, text] : hooks_.files) {
        const Checksum sum = files_->write(name, text);
        if (is_program_file(name)) state_.files[name] = sum;
      }
    for (const int64_t update : no_longer_averaged_) {
      files_->remove(checkpoint_file(update));
      state_.files.erase(checkpoint_file(update));
    }
    NamedTensors tensors = arena_.named(arena_.values(), "value.");
    for (const auto& [arena, prefix] : {std::pair{m, "m."}, std::pair{v, "v."}}) {
      const NamedTensors moments = arena_.named(arena, prefix);
      tensors.insert(tensors.end(), moments.begin(), moments.end());
    }
    write(kTensorsFile, write_tensors(tensors));
    state_.seconds = elapsed();
    state_.log_bytes = log_->bytes();
    state_.generator = default_generator();
    TrainState state = state_;
    if (new_checkpoint) state.checkpoints.push_back(state_.update);
    files_->write(kStateFile, write_state(state, recipe_));
    files_->commit();
  }

  // The minutes end a run before they are over, as the last validation needs some. A later run shall not use the rest.
  void keep_end() {
    if (state_.ended_minutes >= options_.max_minutes) return;
    state_.ended_minutes = options_.max_minutes;
    if (!leads()) return;
    files_->write(kStateFile, write_state(state_, recipe_));
    files_->commit();
  }

  template <class Write>
  void write_model(const Tensor& best, Write&& write) const {
    if (!hooks_.model_file) {
      if (best.defined())
        write(kModelFile, [&](FileWriter& file) { write_safetensors(file, arena_.named(best), {{"format", "heed"}}); });
      return;
    }
    const auto& [name, fill] = *hooks_.model_file;
    if (!best.defined() && std::filesystem::exists(directory_ + "/" + name)) return;
    const NamedTensors parameters = arena_.named(best.defined() ? best : arena_.values());
    write(name, [&, &fill = fill](FileWriter& file) { fill(file, parameters); });
  }

  bool load_state() {
    const std::string path = directory_ + "/" + kStateFile;
    const std::string text = text_of_lead(ranks_, leads() ? saved_state(path) : "");
    if (text.empty()) {
      share_of_lead(ranks_, arena_.values());
      return false;
    }
    state_ = read_state(text, path, recipe_);
    if (leads()) check_files(state_.files, directory_);
    std::optional<SafetensorsFile> file;
    if (leads()) file.emplace(directory_ + "/" + kTensorsFile);
    restore(file, arena_.values(), "value.");
    // Of the moments a rank keeps its slice.
    const Tensor all = ranks_.size() == 1 ? Tensor() : Tensor::empty({arena_.size()}, arena_.dtype());
    for (const auto& [moments, prefix] : {std::pair{optimiser_.m, "m."}, std::pair{optimiser_.v, "v."}}) {
      restore(file, all.defined() ? all : moments, prefix);
      if (all.defined()) moments.copy_from(all.slice(0, slice_.begin, slice_.end));
    }
    optimiser_.steps = state_.update;
    default_generator() = state_.generator;
    last_saved_update_ = state_.update;
    return true;
  }

  // Empty where there is none.
  std::string saved_state(const std::string& path) const {
    if (std::filesystem::exists(path)) return read_file(path);
    for (const char* name : {kModelFile, kTensorsFile})
      if (std::filesystem::exists(directory_ + "/" + name))
        throw FormatError("train: " + directory_ + " holds " + name + " without its training state (" + kStateFile +
                          "); choose another directory");
    return "";
  }

  // What rank 0 reads, on all ranks.
  void restore(const std::optional<SafetensorsFile>& file, const Tensor& arena, const char* prefix) const {
    if (file) {
      arena.fill(0);  // the gaps
      for (const auto& [name, view] : arena_.named(arena, prefix)) {
        const Tensor saved = file->tensor(name);
        if (!(saved.shape() == view.shape()) || saved.dtype() != view.dtype())
          throw FormatError(file->path() + ": tensor '" + name + "' is " + name_of(saved.dtype()) + " " +
                            to_string(saved.shape()) + ", the model needs " + name_of(view.dtype()) + " " +
                            to_string(view.shape()));
        view.copy_from(saved);
      }
    }
    share_of_lead(ranks_, arena);
  }

  Task& task_;
  const TrainOptions& options_;
  const std::string directory_;
  const TrainHooks& hooks_;
  Communicator& all_ranks_;
  const Recipe recipe_;
  SomeRanks ordered_{all_ranks_, by_part(all_ranks_.size(), options_.context_ranks)};
  Communicator& ranks_{ordered_};
  std::optional<SomeRanks> context_;  // that have the other tokens of this rank's sequences
  ParameterArena arena_{task_.model()};
  const IndexRange slice_ = slice_of_arena(ranks_, arena_);
  AdamW optimiser_{arena_, options_.adamw, slice_};
  TrainState state_;
  std::optional<DirectoryTransaction> files_;  // of rank 0
  std::optional<TrainLog> log_;                // likewise
  std::vector<int64_t> no_longer_averaged_{};  // checkpoints whose files go with the next save
  bool has_saved_ = false;                     // in this run
  Clock::time_point last_save_, window_start_;
  double now_ = 0, start_ = 0, seconds_before_ = 0, validation_seconds_ = 0, rate_ = 0, gradient_norm_ = 0, loss_ = 0,
         nll_ = 0, measured_flop_ = 0;
  int64_t leaves_of_update_ = 1, updates_before_ = 0, measured_tokens_ = 0, batches_in_epoch_ = 0,
          last_saved_update_ = -1;
};

}  // namespace

void validate(const TrainOptions& o) {
  const auto shortest = [](double value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  const auto at_least = [&](const char* field, double value, double low) {
    if (!(value >= low))
      throw ShapeError(std::string("train: ") + field + " is " + shortest(value) + "; it must be " + shortest(low) +
                       " or more");
  };
  at_least("batch_tokens", static_cast<double>(o.batch_tokens), 1);
  at_least("max_length", static_cast<double>(o.max_length), 1);
  if (!(o.subword_dropout >= 0 && o.subword_dropout < 1))
    throw ShapeError("train: subword_dropout is " + Json(o.subword_dropout).dump() + "; it must be in [0, 1)");
  at_least("batch", static_cast<double>(o.batch), 1);
  if (o.batch > kMostPieces)
    throw ShapeError("train: batch is " + std::to_string(o.batch) + "; it must be at most " +
                     std::to_string(kMostPieces));
  at_least("block", static_cast<double>(o.block), 0);
  at_least("accumulate", static_cast<double>(o.accumulate), 1);
  if (!std::has_single_bit(static_cast<uint64_t>(o.context_ranks)) || o.context_ranks < 1)
    throw ShapeError("train: context_ranks is " + std::to_string(o.context_ranks) + "; it must be a power of two");
  at_least("clip_norm", o.clip_norm, 0);
  at_least("max_updates", static_cast<double>(o.max_updates), 0);
  at_least("max_epochs", static_cast<double>(o.max_epochs), 0);
  at_least("max_minutes", o.max_minutes, 0);
  at_least("minutes_before", o.minutes_before, 0);
  at_least("patience", static_cast<double>(o.patience), 0);
  at_least("bleu_sentences", static_cast<double>(o.bleu_sentences), 0);
  if (o.criterion == Criterion::bleu && o.bleu_sentences == 0)
    throw ShapeError("train: bleu_sentences is 0; it must be 1 or more to choose the weights by BLEU");
  at_least("validate_every", static_cast<double>(o.validate_every), 0);
  at_least("average", static_cast<double>(o.average), 1);
  at_least("save_minutes", o.save_minutes, 0);
  at_least("save_every", static_cast<double>(o.save_every), 0);
  at_least("log_every", static_cast<double>(o.log_every), 1);
  at_least("warmup", static_cast<double>(o.learning_rate.warmup), 0);
  at_least("anneal", static_cast<double>(o.learning_rate.anneal), 0);
  if (o.learning_rate.anneal > o.learning_rate.total)
    throw ShapeError("train: anneal is " + std::to_string(o.learning_rate.anneal) +
                     "; it must be at most max_updates, " + std::to_string(o.learning_rate.total));
  if (!(o.learning_rate.peak > 0) || !std::isfinite(o.learning_rate.peak))
    throw ShapeError("train: learning_rate is " + Json(o.learning_rate.peak).dump() + "; it must be above 0");
  if (!(o.learning_rate.floor >= 0 && o.learning_rate.floor <= o.learning_rate.peak))
    throw ShapeError("train: the learning rate's floor is " + Json(o.learning_rate.floor).dump() +
                     "; it must be in 0.." + Json(o.learning_rate.peak).dump() + ", the learning rate");
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 1))
    throw ShapeError("train: label_smoothing is " + Json(o.label_smoothing).dump() + "; it must be in [0, 1)");
  if (!(o.r_drop >= 0) || !std::isfinite(o.r_drop))
    throw ShapeError("train: r_drop is " + Json(o.r_drop).dump() + "; it must be a number from 0");
  if (o.learning_rate.schedule == Schedule::cosine && o.learning_rate.total < 1)
    throw ShapeError("train: the cosine schedule needs its total number of updates; set max_updates");
  if (o.learning_rate.schedule == Schedule::linear && o.max_updates < 1 && o.max_epochs < 1 && !(o.max_minutes > 0))
    throw ShapeError("train: the linear schedule needs an end; set max_updates, max_epochs or max_minutes");
}

TrainResult train(Task& task, const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  if (options.bleu_sentences > 0 && !hooks.bleu)
    throw ShapeError("train: bleu_sentences needs TrainHooks::bleu, which translates and scores them");
  if (options.criterion == Criterion::bleu && task.validation_batches() == 0)
    throw ShapeError("train: choosing the weights by BLEU needs validation pairs; give some");
  if (const int ranks = hooks.ranks ? hooks.ranks->size() : 1; ranks % options.context_ranks != 0)
    throw ShapeError("train: context_ranks is " + std::to_string(options.context_ranks) + " and there are " +
                     std::to_string(ranks) + " ranks; pass TrainHooks::ranks of a multiple of it");
  if (options.context_ranks > 1 && !hooks.attention)
    throw ShapeError("train: context_ranks needs TrainHooks::attention; pass mpi::attention_operator");
  for (const auto& [name, text] : hooks.files)
    if (!is_model_file(name))
      throw ShapeError("train: TrainHooks::files has '" + name +
                       "', which is no file of heed's; take a name of heed/model_files.h, or write it yourself");
  if (!hooks.adapters) return Trainer(task, options, directory, hooks).run();
  AdaptedTask adapted(task, *hooks.adapters);
  return Trainer(adapted, options, directory, hooks).run();
}

void Task::split_over(Communicator& context, const MakeAttentionOperator&) {
  throw ShapeError("train: context_ranks is " + std::to_string(context.size()) +
                   "; this task's sequences cannot be split over ranks, only those of a text");
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (const int32_t id : ids)
    if (id < 0 || id >= vocab_size)
      throw ShapeError("train: token id " + std::to_string(id) + " is not in 0.." + std::to_string(vocab_size - 1) +
                       "; use the vocabulary of the model");
}

}  // namespace heed::inline v0
