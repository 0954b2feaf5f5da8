// ReduceSum and ReduceMean: the sum, or mean, along dimension `axis` of the tensor, which becomes 1
// long: [B,w] -> [B,1] for axis 1; [B,S,V] -> [B,1,V] for axis 1, [B,S,1] for axis 2. With a second
// bottom, lengths, those of a history's valid rows; the mean of none is 0.
//
// Scale, the other way round: repeats what a tensor [B,w], or [n B,w], has. `axis` 0: each number
// `factor` times along its row, [B, w factor]; `axis` 1: each row `factor` times, [B factor, w].
// The gradient is the sum over all copies; HugeCTR takes the first one's alone.
#include "hugectr_lite/ops/reduce.h"
#include "hugectr_lite/ops/packed_rows.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

// A sample as [outer,n,inner], and what is summed over n, or repeated n times, as [outer,inner].
struct Cut {
  int64_t outer = 1, n = 1, inner = 1;
  float scale = 1;
  template <typename T>
  [[nodiscard]] View<T, 3> cube(const StepViews<T>& v, BufferId id) const {
    return {v.buffers.template data<T>(id), v.batch * outer, n, inner};
  }
  template <typename T>
  [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id) const {
    return {v.buffers.template data<T>(id), v.batch * outer, inner};
  }
};

// Of a history's valid rows, or all.
struct Counted {
  BufferId lengths = kNoBuffer;
  bool mean = false;
  template <typename T>
  [[nodiscard]] ops::CountedRows rows(const StepViews<T>& v) const {
    return {vector(v.buffers, lengths, v.batch), mean};
  }
};

void add_sum_step(plan::Plan& plan, FloatType type, std::string name, const Cut& cut, BufferId from,
                  BufferId to, const Counted& of = {}) {
  add_typed_step(plan, type, {.name = std::move(name), .reads = {from, of.lengths}, .writes = {to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::reduce_axis<T>(v.exec, cut.cube(v, from), cut.scale, cut.rows(v, to),
                                       of.rows(v));
                 });
}

void add_repeat_step(plan::Plan& plan, FloatType type, std::string name, const Cut& cut,
                     BufferId from, BufferId to, const Counted& of = {}) {
  add_typed_step(plan, type, {.name = std::move(name), .reads = {from, of.lengths}, .writes = {to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::broadcast_axis<T>(v.exec, cut.rows(v, from), cut.scale, cut.cube(v, to),
                                          of.rows(v));
                 });
}

// The same of the rows of `packed`; those of no sample sum to 0.
void add_packed_sum_step(plan::Plan& plan, FloatType type, std::string name,
                         const LayerTensor& packed, BufferId from, BufferId to, bool mean = false) {
  add_typed_step(plan, type,
                 {.name = std::move(name), .reads = {from, packed.offsets}, .writes = {to}},
                 [=, width = packed.dims.back()]<typename T>(const StepViews<T>& v) {
                   ops::sum_packed_rows<T>(v.exec, v.packed(from, packed),
                                           v.offsets(packed.offsets), mean, v.rows(to, width));
                 });
}

void add_packed_repeat_step(plan::Plan& plan, FloatType type, std::string name,
                            const LayerTensor& packed, BufferId from, BufferId to,
                            bool mean = false) {
  add_typed_step(plan, type,
                 {.name = std::move(name), .reads = {from, packed.offsets}, .writes = {to}},
                 [=, width = packed.dims.back()]<typename T>(const StepViews<T>& v) {
                   ops::repeat_rows<T>(v.exec, v.rows(from, width), v.offsets(packed.offsets), mean,
                                       v.packed(to, packed));
                 });
}

class ReduceLayer : public Layer {
 public:
  ReduceLayer(Block& s, bool mean) : Layer(s), mean_(mean) {
    s.about(mean ? "Mean along a dimension, which becomes 1 long. A second bottom is a history's "
                   "lengths: the mean of its valid rows."
                 : "Sum along a dimension, which becomes 1 long. A second bottom is a history's "
                   "lengths: the sum of its valid rows.");
    s.integer("axis", &axis_, {.min = 0}, "The dimension; 0 is the batch.");
    if (bottoms().size() != 2) expect_bottoms(s, 1);
    expect_tops(s, 1);
    traits_.takes_lengths = bottoms().size() == 2;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& bottoms) const override {
    const Dims& x = bottoms[0];
    const auto last = static_cast<int64_t>(x.size()) - (x.folded ? 1 : 0);
    if (axis_ < 1 || axis_ > last)
      config::fail_expected(
          *node().find("axis"),
          fmt::format(
              "an axis of \"{}\" {} other than the batch, 1 to {}; sums over samples are not "
              "supported",
              this->bottoms()[0], to_string(x), last));
    if (traits_.takes_lengths) {
      expect_rank(x, 2, 0);
      expect_lengths(bottoms, 1, 0);
      if (axis_ != 1)
        config::fail_expected(*node().find("axis"), "1, the rows that lengths count,");
    }
    Dims top = x;
    top[reduced(x)] = 1;
    if (reduced(x) + 1 < x.size()) top.lengths = "";
    LayerShape shape = {.tops = {top}, .rows = Rows::kCounted};
    if (traits_.takes_lengths) shape.takes_packed = {0};
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    if (x.offsets != kNoBuffer)
      return add_packed_sum_step(plan, io.type, name() + ".fprop", x, x.value, y.value, mean_);
    add_sum_step(plan, io.type, name() + ".fprop", cut_of(x.dims), x.value, y.value, counted(io));
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    if (x.offsets != kNoBuffer)
      return add_packed_repeat_step(plan, io.type, name() + ".bprop", x, y.grad, x.grad, mean_);
    add_repeat_step(plan, io.type, name() + ".bprop", cut_of(x.dims), y.grad, x.grad, counted(io));
  }

 private:
  // Which of the Dims.
  [[nodiscard]] size_t reduced(const Dims& x) const {
    return static_cast<size_t>(axis_) - (x.folded ? 0 : 1);
  }
  [[nodiscard]] Cut cut_of(const Dims& x) const {
    Cut cut;
    for (size_t i = 0; i < x.size(); ++i)
      (i < reduced(x) ? cut.outer : i == reduced(x) ? cut.n : cut.inner) *= x[i];
    if (mean_ && !traits_.takes_lengths) cut.scale = 1.0f / static_cast<float>(cut.n);
    return cut;
  }

  [[nodiscard]] Counted counted(const LayerIo& io) const {
    if (!traits_.takes_lengths) return {};
    return {io.bottoms[1].value, mean_};
  }

  bool mean_;
  int64_t axis_ = 1;
};

class ScaleLayer : public Layer {
 public:
  explicit ScaleLayer(Block& s) : Layer(s) {
    s.about("Repeats numbers or rows.");
    if (auto param = s.object("scale_param", "Its parameters.", kRequired)) {
      param->integer("axis", &by_row_, {.min = 0, .max = 1},
                     "0 repeats numbers along the row; 1 repeats rows.", kRequired);
      param->integer("factor", &factor_, {.min = 1, .max = 1 << 20}, "How often.", kRequired);
    }
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const Dims& x = dims[0];
    if (!x.folded) expect_rank(x, 1, 0);
    Dims top = x;
    if (!by_row_) {
      top.back() *= factor_;
    } else if (rows_of_sample(x) * factor_ > 1) {
      top = {rows_of_sample(x) * factor_, x.back()};
      top.folded = true;
    }
    return {.tops = {top},
            .rows = by_row_ ? Rows::kMixed : Rows::kAlike,
            .summary = fmt::format("each {} {} times", by_row_ ? "row" : "number", factor_),
            .repeats_row = by_row_ && rows_of_sample(x) == 1,
            .by_sample = {0}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    if (y.offsets != kNoBuffer)
      return add_packed_repeat_step(plan, io.type, name() + ".fprop", y, x.value, y.value);
    add_repeat_step(plan, io.type, name() + ".fprop", cut_of(x.dims), x.value, y.value);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    if (y.offsets != kNoBuffer)
      return add_packed_sum_step(plan, io.type, name() + ".bprop", y, y.grad, x.grad);
    add_sum_step(plan, io.type, name() + ".bprop", cut_of(x.dims), y.grad, x.grad);
  }

 private:
  [[nodiscard]] Cut cut_of(const Dims& x) const {
    return by_row_ ? Cut{rows_of_sample(x), factor_, x.back()} : Cut{elements(x), factor_, 1};
  }

  bool by_row_ = false;
  int64_t factor_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_reduce_sum(Block& s) { return std::make_unique<ReduceLayer>(s, false); }
std::unique_ptr<Layer> make_reduce_mean(Block& s) { return std::make_unique<ReduceLayer>(s, true); }
std::unique_ptr<Layer> make_scale(Block& s) { return std::make_unique<ScaleLayer>(s); }

}  // namespace hlite::network
