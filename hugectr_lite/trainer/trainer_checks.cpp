// What a trainer looks at while it runs, and how it fails on numbers that are none.
#include <algorithm>
#include <cmath>
#include <span>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/trainer.h"

namespace hlite::trainer {

// What the last iteration has come to.
void Trainer::look(ProgressState& state) {
  state.iter = iteration_;
  state.loss = model_->loss();
  state.lr = model_->learning_rate();
  model_->check_keys();
  if (std::isfinite(state.loss)) return;
  report_evaluation(state);  // of an iteration before
  fail_non_finite(fmt::format("expected a finite loss, found {}", state.loss));
}

void Trainer::check_weights() {
  if (const auto bad = model_->find_non_finite_weight(exec()); !bad.tensor.empty())
    fail_non_finite(fmt::format("expected finite weights, found {} in \"{}\", element {}",
                                bad.value, bad.tensor, bad.element));
  if (const auto scale = model_->dynamic_loss_scale(); scale && scale->lost > 0)
    fail_non_finite(
        fmt::format("expected finite gradients at a loss scale of {:g}, found others in {} "
                    "iterations",
                    static_cast<double>(optimizer::kMinLossScale), scale->lost));
}

// The first rank that has the cause among its samples says so.
void Trainer::fail_non_finite(const std::string& problem) {
  const auto where = model_->find_non_finite(exec(), last_batch_.size);
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
  const std::string at =
      where.tensor.empty()
          ? "every activation is finite"
          : fmt::format("first in tensor \"{}\" of layer \"{}\", sample {} of {}", where.tensor,
                        where.layer, last_batch_.first_sample + where.sample,
                        config_.resolve(config_.data.source));
  raise<DataError>(
      "iteration {}: {}: {}; a smaller learning rate (now {:g}), a longer warm-up, or better data "
      "may help",
      iteration_, problem, at, static_cast<double>(model_->learning_rate()));
}

}  // namespace hlite::trainer
