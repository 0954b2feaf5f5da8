// Reshape: a sample's numbers, in their order, in another shape: [B, all of them], [n B,w] with
// `leading_dim` w below that, [B,t,w] with `time_step` t too; or, with `selected`, the vectors of
// the named slots of [B,S,V] side by side.
#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class ReshapeLayer : public Layer {
 public:
  explicit ReshapeLayer(Block& s) : Layer(s) {
    s.about("Gives the numbers of a sample another shape, or selects some of its slots.");
    s.integer("leading_dim", &leading_dim_, {.min = 1}, "The last dimension, w.",
              otherwise("all numbers of a sample"));
    s.integer("time_step", &time_step_, {.min = 0},
              "t of [B,t,w], with `leading_dim`; 0 means none.");
    if (s.integers("selected", &selected_, {.min = 0},
                   "Slots of [B,S,V], instead of `leading_dim`.") &&
        selected_.empty())
      s.expected("selected", "at least one slot");
    if (!selected_.empty() && leading_dim_ != 0)
      s.refuse("leading_dim", "expected either `selected` or `leading_dim`, found both");
    if (time_step_ != 0 && !s.has("leading_dim")) s.refuse("time_step", "requires `leading_dim`");
    expect_one_each(s);
    traits_.is_view = selected_.empty();
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& bottoms) const override {
    const Dims& dims = bottoms[0];
    if (!selected_.empty()) {
      expect_rank(dims, 2, 0);
      check_selected(dims[0]);
      return {.tops = {{static_cast<int64_t>(selected_.size()) * dims[1]}},
              .summary = fmt::format("slots {}", fmt::join(selected_, ","))};
    }
    const int64_t width = elements(dims);
    if (leading_dim_ == 0 || (leading_dim_ == width && time_step_ == 0))
      return {.tops = {Dims{width}}, .rows = Rows::kCounted};
    if (time_step_ != 0 ? time_step_ * leading_dim_ != width : width % leading_dim_ != 0)
      config::fail_expected(
          *node().find("leading_dim"),
          fmt::format("{} {}, the width of one sample of \"{}\" {}",
                      time_step_ != 0
                          ? fmt::format("one that makes, times `time_step` {},", time_step_)
                          : "a divisor of",
                      width, this->bottoms()[0], to_string(dims)));
    Dims top = {width / leading_dim_, leading_dim_};
    top.folded = time_step_ == 0;
    if (top[0] == rows_of_sample(dims)) top.lengths = dims.lengths;
    return {.tops = {top}, .rows = Rows::kCounted};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    if (traits().is_view) return;
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const std::string step = name() + ".fprop";
    const int64_t width = x.dims[1];
    std::vector<ColumnMove> moves;
    for (size_t i = 0; i < selected_.size(); ++i)
      moves.push_back({.from = x.value,
                       .width = elements(x.dims),
                       .begin = selected_[i] * width,
                       .to_begin = static_cast<int64_t>(i) * width,
                       .columns = width});
    add_columns_step(plan, io.type, step, moves, y.value, y.dims[0]);
  }

  // Slots that were left out get 0.
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    if (traits().is_view) return;
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const std::string step = name() + ".bprop";
    const int64_t width = x.dims[1];
    std::vector<ColumnMove> moves;
    for (size_t i = 0; i < selected_.size(); ++i)
      moves.push_back({.from = y.grad,
                       .width = y.dims[0],
                       .begin = static_cast<int64_t>(i) * width,
                       .to_begin = selected_[i] * width,
                       .columns = width});
    add_columns_step(plan, io.type, step, moves, x.grad, elements(x.dims));
  }

 private:
  void check_selected(int64_t slots) const {
    const auto& list = node().find("selected")->elements();
    for (size_t i = 0; i < selected_.size(); ++i) {
      if (selected_[i] >= slots)
        config::fail_expected(list[i], fmt::format("a slot below {}", slots));
      if (std::count(selected_.begin(), selected_.end(), selected_[i]) > 1)
        config::fail_at(list[i], fmt::format("slot {} is selected twice", selected_[i]));
    }
  }

  std::vector<int64_t> selected_;            // empty: all slots
  int64_t leading_dim_ = 0, time_step_ = 0;  // 0: not given
};

}  // namespace

std::unique_ptr<Layer> make_reshape(Block& s) { return std::make_unique<ReshapeLayer>(s); }

}  // namespace hlite::network
