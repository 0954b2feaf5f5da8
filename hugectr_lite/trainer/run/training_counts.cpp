#include "hugectr_lite/trainer/run/training_counts.h"

#include <algorithm>

#include "hugectr_lite/trainer/model/model_sizes.h"

namespace hlite::trainer {

void TrainingCounts::begin() {
  first_iteration_ = run_.iteration;
  outside_ = moved();
  if (run_.options.report.empty()) return;
  Model& model = *run_.model;
  step_seconds_.resize(model.train_plan().steps().size());
  if (!model.executor().measure(model.train_plan(), step_seconds_)) step_seconds_.clear();
}

TrainingCounts::Moved TrainingCounts::moved() const {
  return {trainer::moved_rows(*run_.model), model_traffic(*run_.model)};
}

void TrainingCounts::add_outside(const Moved& before) {
  const Moved after = moved();
  for (size_t i = 0; i < after.rows.size(); ++i) {
    outside_.rows[i] += after.rows[i];
    outside_.rows[i] -= before.rows[i];
  }
  for (size_t i = 0; i < after.traffic.steps.size(); ++i)
    outside_.traffic.steps[i].totals +=
        after.traffic.steps[i].totals - before.traffic.steps[i].totals;
  outside_.traffic.host_to_device += after.traffic.host_to_device - before.traffic.host_to_device;
}

std::vector<embedding::RowCacheCounts> TrainingCounts::rows_in_training() const {
  auto rows = trainer::moved_rows(*run_.model);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] -= outside_.rows[i];
  return rows;
}

std::optional<StepsEvent> TrainingCounts::step_times() {
  if (step_seconds_.empty() || iterations() == 0) return std::nullopt;
  constexpr int kTimes = 3;
  constexpr int64_t kCopied = int64_t{16} << 20;
  StepsEvent event{.iterations = iterations(),
                   .steps = {},
                   .rates = measure_rates(run_.exec(), kTimes, kCopied),
                   .device = fmt::format("CPU, {} threads a rank", run_.pool.threads())};
  const plan::Plan& plan = run_.model->train_plan();
  const plan::WorkSize size = run_.model->train_size();
  for (size_t i = 0; i < step_seconds_.size(); ++i) {
    const plan::Step& step = plan.steps()[i];
    const plan::StepWork work = work_of(plan, step, size);
    event.steps.push_back({.name = step.name,
                           .lane = plan::lane_name(step.lane),
                           .seconds = step_seconds_[i] / static_cast<double>(iterations()),
                           .flops = work.flops,
                           .bytes = work.bytes,
                           .exchange = step.lane == plan::Lane::kComm,
                           .sent = work.in_node + work.between});
    // A step may have had the time that other users of the machine took from the measurement.
    if (const StepTime& t = event.steps.back(); t.seconds > 0)
      event.rates.flops = std::max(event.rates.flops, t.flops / t.seconds);
  }
  return event;
}

std::optional<TablesEvent> TrainingCounts::table_tiers() const {
  if (!run_.config.solver.embedding_memory) return std::nullopt;
  return TablesEvent{.iterations = iterations(),
                     .decision = run_.memory_lines,
                     .layers = tiers_of(*run_.model),
                     .moved = rows_in_training()};
}

embedding::RowCacheCounts TrainingCounts::moved_rows() const {
  embedding::RowCacheCounts sum;
  const auto tiers = tiers_of(*run_.model);
  const auto moved = rows_in_training();
  for (size_t i = 0; i < moved.size(); ++i)
    if (!tiers[i].is_lower) sum += moved[i];
  return sum;
}

TrafficReport TrainingCounts::traffic() {
  run_.model->synchronize();
  return collect_traffic(run_.exec(), *run_.model, run_.ranks, outside_.traffic, iterations(),
                         run_.config.solver.batchsize);
}

}  // namespace hlite::trainer
