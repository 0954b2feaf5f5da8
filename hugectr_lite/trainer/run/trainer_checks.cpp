// How a trainer fails on numbers that are none.
#include <algorithm>
#include <cmath>
#include <span>

#include "data_reader/shuffled_source.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/non_finite_search.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {

void Trainer::check_loss() {
  if (const double found = loss(); !std::isfinite(found))
    fail_non_finite(fmt::format("expected a finite loss, found {}", found));
}

void Trainer::check_weights() {
  if (const auto bad = find_non_finite_weight(*model_); !bad.tensor.empty())
    fail_non_finite(fmt::format("expected finite weights, found {} in \"{}\", element {}",
                                bad.value, bad.tensor, bad.element));
  if (const auto scale = model_->loss_scaling().dynamic_state(); scale && scale->lost > 0)
    fail_non_finite(
        fmt::format("expected finite gradients at a loss scale of {:g}, found others in {} "
                    "iterations",
                    static_cast<double>(optimizer::kMinLossScale), scale->lost));
}

// The first rank that has the cause among its samples says so.
void Trainer::fail_non_finite(const std::string& problem) {
  const auto where = find_non_finite(*model_, last_batch_.size);
  if (ranks_.ranks() > 1) {
    const char found = where.tensor.empty() ? 0 : 1;
    std::vector<char> all(static_cast<size_t>(ranks_.ranks()));
    ranks_.world->all_gather(exec(), std::as_bytes(std::span(&found, 1)),
                             std::as_writable_bytes(std::span(all)));
    const auto first = std::find(all.begin(), all.end(), 1) - all.begin();
    const int64_t speaker = first == std::ssize(all) ? 0 : first;
    // It ends in the error that the speaker throws.
    if (ranks_.rank != speaker) ranks_.world->barrier();
  }
  int64_t sample = last_batch_.first_sample + where.sample;
  if (config_.data.shuffle_samples)
    sample = data::shuffled_sample(seed_, (source_->position() - 1) / epoch_iterations(),
                                   source_->samples(), sample);
  const std::string at =
      where.tensor.empty()
          ? "every activation is finite"
          : fmt::format("first in tensor \"{}\" of layer \"{}\", sample {} of {}", where.tensor,
                        where.layer, sample, config_.resolve(config_.data.source));
  raise<DataError>(
      "iteration {}: {}: {}; a smaller learning rate (now {:g}), a longer warm-up, or better data "
      "may help",
      iteration_, problem, at, learning_rate());
}

}  // namespace hlite::trainer
