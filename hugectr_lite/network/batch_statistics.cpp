#include "hugectr_lite/network/batch_statistics.h"

namespace hlite::network {

BatchStatistics::BatchStatistics(const LayerIo& io, double epsilon)
    : x_(io.bottoms[0].value),
      fixed_(io.fixed),
      mean_(io.running[0]),
      variance_(io.running[1]),
      workspace_(io.workspace),
      sums_(io.rank_sums[0]),
      gradient_sums_(io.rank_sums[1]),
      sample_rows_(rows_of_sample(io.bottoms[0].dims)),
      n_(io.bottoms[0].dims.back()),
      ranks_(io.ranks()),
      epsilon_(epsilon) {}

void BatchStatistics::ask_for(LayerShape& shape, int64_t n) {
  shape.workspace_bytes = ops::terms_workspace(n) * static_cast<int64_t>(sizeof(double));
  shape.running = {{"running_mean", {n}, {InitializerType::kZero, 0, n}},
                   {"running_variance", {n}, {InitializerType::kOne, 0, n}}};
  shape.fixed_bytes = ops::ColumnStatistics::kRows * n * kFloatBytes;
  shape.rank_sums = {2 * n, 2 * n};
}

void BatchStatistics::emit_sums(plan::Plan& plan, const LayerIo& io, const std::string& layer,
                                Phase phase) const {
  if (phase != Phase::kTrain) return;
  add_typed_step(plan, io.type,
                 {.name = layer + ".sums", .reads = {x_}, .writes = {sums_.mine, workspace_}},
                 [s = *this]<typename T>(const StepViews<T>& v) {
                   ops::batch_norm_sums<T>(v.exec, s.rows(v, s.x_), s.parts(v),
                                           matrix<double>(v.buffers, s.sums_.mine, 2, s.n_));
                 });
  add_gather_step(plan, io, layer + ".sums_gather", sums_);
}

std::vector<BufferId> BatchStatistics::sources(Phase phase) const {
  if (phase == Phase::kTrain) return {sums_.all};
  return {mean_, variance_};
}

void BatchStatistics::emit_gradient_gather(plan::Plan& plan, const LayerIo& io,
                                           const std::string& layer) const {
  add_gather_step(plan, io, layer + ".gradients_gather", gradient_sums_);
}

void BatchStatistics::emit_running(plan::Plan& plan, const LayerIo& io, const std::string& layer,
                                   double factor) const {
  add_typed_step(plan, FloatType::kFloat,
                 {.name = layer + ".running",
                  .reads = {fixed_, io.capacity_exceeded, mean_, variance_},
                  .writes = {mean_, variance_}},
                 [s = *this, factor,
                  capacity_exceeded = io.capacity_exceeded]<typename T>(const StepViews<T>& v) {
                   ops::update_running(v.exec, s.get(v),
                                       {.rows = s.batch_rows(v),
                                        .factor = static_cast<float>(factor),
                                        .skip = pointer<int32_t>(v.buffers, capacity_exceeded)},
                                       s.running(v));
                 });
}

}  // namespace hlite::network
