#include "hugectr_lite/network/shared_steps.h"

#include <algorithm>

#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/ops/concat.h"
#include "hugectr_lite/ops/copy.h"
#include "hugectr_lite/ops/dropout.h"

namespace hlite::network {

void add_copy_step(plan::Plan& plan, FloatType type, const std::string& name, BufferId from,
                   BufferId to, const LayerTensor& like) {
  add_typed_step(plan, type, {.name = name, .reads = {from, like.offsets}, .writes = {to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::copy<T>(v.exec, v.flat(from, like), v.flat(to, like));
                 });
}

void add_dropout_step(plan::Plan& plan, const LayerIo& io, const DropoutSpec& spec,
                      const std::string& name, BufferId from, BufferId to,
                      const LayerTensor& like) {
  const ops::DropoutMask mask = {
      .rate = static_cast<float>(spec.rate), .seed = io.seed, .stream = spec.stream};
  add_typed_step(plan, io.type,
                 {.name = name, .reads = {from, io.step, like.offsets}, .writes = {to}},
                 [=, step = io.step]<typename T>(const StepViews<T>& v) {
                   ops::DropoutMask now = mask;
                   now.step = pointer<int64_t>(v.buffers, step);
                   now.first_element = v.context.first_row * elements(like.dims);
                   const Vector<T> x = v.flat(from, like), out = v.flat(to, like);
                   if (like.offsets == kNoBuffer) return ops::dropout<T>(v.exec, x, out, now);
                   const int64_t first = now.first_element, width = like.dims.back();
                   const ops::PackedRows rows = v.rows(like);
                   for (int64_t b = 0; b < v.batch; ++b) {
                     now.first_element = first + b * elements(like.dims) + rows.first(b) * width;
                     const int64_t* const at = rows.offsets.row(b);
                     ops::dropout<T>(v.exec, x.rows(at[0] * width, at[1] * width),
                                     out.rows(at[0] * width, at[1] * width), now);
                   }
                 });
}

// The two steps that follow keep the list of views: an iteration allocates nothing.

void add_elementwise_step(plan::Plan& plan, FloatType type, const std::string& name,
                          ops::Elementwise how, const std::vector<BufferId>& inputs, BufferId out,
                          const LayerTensor& like) {
  std::vector<BufferId> reads = inputs;
  reads.push_back(like.offsets);
  with_float_type(type, [&]<typename T>() {
    add_step(plan, {.name = name,
                    .reads = reads,
                    .writes = {out},
                    .run = [=, &buffers = plan.buffers(),
                            views = std::vector<Vector<const T>>(inputs.size())](
                               const plan::StepContext& c) mutable {
                      const StepViews<T> v(buffers, c);
                      for (size_t i = 0; i < inputs.size(); ++i) views[i] = v.flat(inputs[i], like);
                      ops::elementwise<T>(v.exec, how, views, v.flat(out, like));
                    }});
  });
}

void add_columns_step(plan::Plan& plan, FloatType type, const std::string& name,
                      const std::vector<ColumnMove>& moves, BufferId to, int64_t width,
                      const RowCount& of) {
  std::vector<BufferId> reads = {of.offsets};
  for (const ColumnMove& m : moves)
    if (std::find(reads.begin(), reads.end(), m.from) == reads.end()) reads.push_back(m.from);
  with_float_type(type, [&]<typename T>() {
    add_step(plan, {.name = name,
                    .reads = reads,
                    .writes = {to},
                    .run = [=, &buffers = plan.buffers(),
                            blocks = std::vector<ops::ColumnBlock<T>>(moves.size())](
                               const plan::StepContext& c) mutable {
                      const int64_t rows = StepViews<T>(buffers, c).count(of);
                      for (size_t i = 0; i < moves.size(); ++i) {
                        const ColumnMove& m = moves[i];
                        blocks[i] = {matrix<T>(buffers, m.from, rows, m.width), m.begin, m.to_begin,
                                     m.columns};
                      }
                      ops::concat_columns<T>(c.exec, blocks, matrix<T>(buffers, to, rows, width));
                    }});
  });
}

void add_gather_step(plan::Plan& plan, const LayerIo& io, const std::string& name,
                     const RankSums& sums) {
  if (io.gather) io.gather->add_gather_step(plan, name, sums.mine, sums.all);
}

void add_cast_from_float(plan::Plan& plan, FloatType type, const std::string& name,
                         const CastFromFloat& cast) {
  add_typed_step(plan, type, {.name = name, .reads = {cast.from}, .writes = {cast.to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::cast_padded<T>(v.exec, matrix(v.buffers, cast.from, v.batch, cast.width),
                                       v.rows(cast.to, cast.columns));
                 });
}

void add_cast_to_float(plan::Plan& plan, FloatType type, const std::string& name, BufferId from,
                       BufferId to, int64_t width) {
  add_typed_step(plan, type, {.name = name, .reads = {from}, .writes = {to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::cast_to_float<T>(v.exec, vector<T>(v.buffers, from, v.batch * width),
                                         vector(v.buffers, to, v.batch * width));
                 });
}

void add_affine_step(plan::Plan& plan, FloatType type, const std::string& name,
                     const ops::Affine& f, BufferId from, BufferId to, int64_t width) {
  add_typed_step(plan, type, {.name = name, .reads = {from}, .writes = {to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::affine_to_float<T>(v.exec, f, vector<T>(v.buffers, from, v.batch * width),
                                           vector(v.buffers, to, v.batch * width));
                 });
}

}  // namespace hlite::network
