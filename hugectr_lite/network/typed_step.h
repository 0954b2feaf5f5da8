// A step of a layer, written once and compiled for each type that a network may compute in.
#pragma once

#include <utility>

#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::network {

// The views that a typed step works with while it runs: buffers as T, for the samples of this
// batch.
template <typename T>
struct StepViews {
  StepViews(const Buffers& all, const plan::StepContext& c)
      : buffers(all), context(c), exec(c.exec), batch(c.batch) {}

  [[nodiscard]] int64_t count(const RowCount& rows) const {
    return rows.offsets == kNoBuffer ? batch * rows.of_sample
                                     : buffers.template data<int64_t>(rows.offsets)[batch];
  }
  // A tensor's values, or its gradient, as one vector: [rows * elements of a row].
  [[nodiscard]] Vector<T> values(const LayerTensor& t) const { return flat(t.value, t); }
  [[nodiscard]] Vector<T> grads(const LayerTensor& t) const { return flat(t.grad, t); }
  [[nodiscard]] Vector<T> flat(BufferId id, const LayerTensor& like) const {
    return vector<T>(buffers, id, count(rows_of(like)) * width_of_row(like.dims));
  }
  [[nodiscard]] Vector<T> flat(BufferId id, const Dims& dims) const {
    return vector<T>(buffers, id, batch * elements(dims));
  }
  // [batch, width], or for kNoBuffer none.
  [[nodiscard]] Matrix<T> rows(BufferId id, int64_t width) const {
    return matrix<T>(buffers, id, batch, width);
  }
  // Of a packed tensor: where each sample's rows begin, [batch + 1].
  [[nodiscard]] Vector<const int64_t> offsets(BufferId id) const {
    return {buffers.data<int64_t>(id), batch + 1};
  }
  // Where the rows of any tensor lie.
  [[nodiscard]] ops::PackedRows rows(const LayerTensor& t) const {
    if (t.offsets == kNoBuffer) return {};
    const auto* const at = buffers.data<int64_t>(t.offsets);
    return {{at, batch + 1}, {at + batch + 1, batch}};
  }
  // Its rows, or those of its gradient.
  [[nodiscard]] Matrix<T> packed(BufferId id, const LayerTensor& like) const {
    return matrix<T>(buffers, id, count(rows_of(like)), like.dims.back());
  }
  // [batch, dims[0], dims[1]]
  [[nodiscard]] View<T, 3> cube(BufferId id, const Dims& dims) const {
    return {buffers.data<T>(id), batch, dims[0], dims[1]};
  }

  const Buffers& buffers;
  const plan::StepContext& context;
  const Exec& exec;
  const int64_t batch;
};

// Adds a step. A kNoBuffer among `reads` and `writes` is left out, and a step that would write
// nothing is not added: its result is not needed.
inline void add_step(plan::Plan& plan, plan::Step step) {
  step.reads = plan::present(std::move(step.reads));
  step.writes = plan::present(std::move(step.writes));
  if (!step.writes.empty()) plan.add(std::move(step));
}

// The same with `run`, a generic lambda, called with the StepViews<T> of `type`:
//   add_typed_step(plan, io.type, {.name = name() + ".fprop", .reads = {x}, .writes = {y}},
//                  [=]<typename T>(const StepViews<T>& v) { f<T>(v.exec, v.rows(x, n), ...); });
template <typename Run>
void add_typed_step(plan::Plan& plan, FloatType type, plan::Step step, const Run& run) {
  with_float_type(type, [&]<typename T>() {
    step.run = [run, &buffers = plan.buffers()](const plan::StepContext& c) {
      run(StepViews<T>(buffers, c));
    };
  });
  add_step(plan, std::move(step));
}

}  // namespace hlite::network
