// A trainer fails on numbers that are NaN or infinite.
#include <algorithm>
#include <cmath>
#include <span>

#include "data_reader/shuffled_source.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/non_finite_search.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {

void Trainer::check_loss() {
  if (const double found = batch_loss(); !std::isfinite(found))
    fail_non_finite(fmt::format("expected a finite loss, found {}", found));
}

void Trainer::check_weights() {
  const auto bad = find_non_finite_weight(*model_);
  const bool found = !bad.tensor.empty();
  // A problem may be one rank's own: all end, or none.
  if (const int speaker = first_of_ranks(found); speaker >= 0)
    fail_non_finite(found ? fmt::format("expected finite weights, found {} in \"{}\", element {}",
                                        bad.value, bad.tensor, bad.element)
                          : fmt::format("rank {} found weights that are not finite", speaker),
                    speaker);
  if (const auto scale = model_->loss_scaling().dynamic_state(); scale && scale->lost > 0)
    fail_non_finite(
        fmt::format("expected finite gradients at a loss scale of {:g}, found others in {} "
                    "iterations",
                    static_cast<double>(optimizer::kMinLossScale), scale->lost));
}

// The first rank for which it is true, or -1 for none. Collective.
int Trainer::first_of_ranks(bool mine) {
  if (ranks_.ranks() == 1) return mine ? 0 : -1;
  const char own = mine ? 1 : 0;
  std::vector<char> all(static_cast<size_t>(ranks_.ranks()));
  ranks_.world->all_gather(exec(), std::as_bytes(std::span(&own, 1)),
                           std::as_writable_bytes(std::span(all)));
  const auto first = std::find(all.begin(), all.end(), 1);
  return first == all.end() ? -1 : static_cast<int>(first - all.begin());
}

// The first rank that has the cause among its samples says so; where none has, `otherwise`.
void Trainer::fail_non_finite(const std::string& problem, int otherwise) {
  const auto where = find_non_finite(*model_, last_batch_.size);
  const int cause = first_of_ranks(!where.tensor.empty());
  // It ends in the error that the speaker throws.
  if (ranks_.rank != (cause < 0 ? otherwise : cause)) ranks_.world->barrier();
  int64_t sample = last_batch_.first_sample + where.sample;
  if (config_.data.shuffle_samples)
    sample = data::shuffled_sample(seed_, (source_->position() - 1) / epoch_iterations(),
                                   source_->samples(), sample);
  const std::string at =
      where.tensor.empty() ? "every activation is finite"
                           : fmt::format("first in tensor \"{}\" of layer \"{}\", sample {} of {}",
                                         where.tensor, where.layer, sample,
                                         followed_ ? followed_->path(followed_->file())
                                                   : config_.resolve(config_.data.source));
  raise<DataError>(
      "iteration {}: {}: {}; a smaller learning rate (now {:g}), a longer warm-up, or better data "
      "may help",
      iteration_, problem, at, learning_rate());
}

}  // namespace hlite::trainer
