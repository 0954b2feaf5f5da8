// Interaction: DLRM's pairwise dot products. Bottoms: the MLP vector [B,V] and the embedding
// vectors [B,n,V]. Top: [B, V + n(n+1)/2 + 1]; the layout is that of ops/interaction.h. A second
// top is HugeCTR's name for the gradient, which the next layer lists as its second bottom.
#include "hugectr_lite/ops/interaction.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class InteractionLayer : public Layer {
 public:
  explicit InteractionLayer(Block& s) : Layer(s) {
    s.about(
        "DLRM's dot products of all pairs: [B,V] and [B,n,V] -> [B, V + n(n + 1)/2 + 1]. A second "
        "top, by which later versions name the gradient, carries no data.");
    expect_bottoms(s, 2);
    if (tops().size() != 2) expect_tops(s, 1);
    traits_.data_tops = 1;
    traits_.joint_gradients = true;
    traits_.masks_by_values = true;
    traits_.finds_gradient_overflow_in = {1};
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 1, 0);
    expect_rank(dims[1], 2, 1);
    const int64_t slots = dims[1][0], width = dims[1][1];
    if (dims[0][0] != width)
      config::fail_at(
          *node().find("bottom"),
          fmt::format("expected \"{}\" as wide as the embedding vectors of \"{}\" ({}), found {}",
                      bottoms()[0], bottoms()[1], width, dims[0][0]));
    return {.tops = {{ops::interaction_width(slots, width)}},
            .summary = fmt::format("{} vectors of {}", slots + 1, width),
            .made_of_rows = ops::interaction_takes_rows(slots, width) ? std::optional<size_t>(1)
                                                                      : std::nullopt};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &slots = io.bottoms[1], &y = io.tops[0];
    if (slots.rows) return emit_lookup_and_forward(plan, io);
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop",
                    .reads = {x.value, slots.value},
                    .writes = {y.value},
                    .flops_per_sample = flops(slots.dims)},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::interaction_forward<T>(v.exec, v.rows(x.value, x.dims[0]),
                                                 v.cube(slots.value, slots.dims),
                                                 v.rows(y.value, y.dims[0]));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &slots = io.bottoms[1], &y = io.tops[0];
    HLITE_CHECK(x.grad != kNoBuffer && slots.grad != kNoBuffer, "interaction {} without gradients",
                name());
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {x.value, slots.value, y.grad},
                    .writes = {x.grad, slots.grad, io.gradient_overflow},
                    .flops_per_sample = 2 * flops(slots.dims)},
                   [=, overflow = io.gradient_overflow,
                    relu = io.below.relu]<typename T>(const StepViews<T>& v) {
                     ops::interaction_backward<T>(
                         v.exec, v.rows(x.value, x.dims[0]), v.cube(slots.value, slots.dims),
                         v.rows(y.grad, y.dims[0]), v.rows(x.grad, x.dims[0]),
                         v.cube(slots.grad, slots.dims), pointer<int32_t>(v.buffers, overflow),
                         relu);
                   });
  }

 private:
  // The vectors, which nothing has looked up yet, are made as they are multiplied.
  void emit_lookup_and_forward(plan::Plan& plan, const LayerIo& io) const {
    const LayerTensor &x = io.bottoms[0], &slots = io.bottoms[1], &y = io.tops[0];
    const double numbers = static_cast<double>(elements(x.dims) + elements(slots.dims) +
                                               elements(y.dims)),
                 bytes = numbers * static_cast<double>(float_type_bytes(io.type));
    add_typed_step(
        plan, io.type,
        {.name = name() + ".lookup_fprop",
         .reads = {x.value, slots.rows->numbers, slots.rows->table},
         .writes = {slots.value, y.value},
         .flops_per_sample = flops(slots.dims),
         .bytes_per_sample = slots.rows->bytes_per_sample + bytes},
        [=, from = *slots.rows]<typename T>(const StepViews<T>& v) {
          const ops::InteractionRows rows{
              .table = matrix(v.buffers, from.table, from.rows, slots.dims[1]),
              .numbers = matrix<uint32_t>(v.buffers, from.numbers, v.batch, from.columns),
              .first_column = from.first_column};
          ops::interaction_forward_of_rows<T>(v.exec, v.rows(x.value, x.dims[0]), rows,
                                              v.cube(slots.value, slots.dims),
                                              v.rows(y.value, y.dims[0]));
        });
  }
  static double flops(const Dims& slots) {
    return static_cast<double>(slots[0] * (slots[0] + 1) * slots[1]);
  }
};

}  // namespace

std::unique_ptr<Layer> make_interaction(Block& s) { return std::make_unique<InteractionLayer>(s); }

}  // namespace hlite::network
