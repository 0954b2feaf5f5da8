// Slice: cuts [begin, end) of the last dimension into one top per range. Ranges may overlap:
// gradients add up.
#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class SliceLayer : public Layer {
 public:
  explicit SliceLayer(Block& s) : Layer(s) {
    s.about("Cuts the last dimension into one top for each range.");
    const bool given =
        s.value("ranges",
                {"a list of [begin, end) pairs; each a pair of integers [begin, end)",
                 R"("type":"array","minItems":1,"items":{"type":"array","minItems":2,"maxItems":2,)"
                 R"("items":{"type":"integer","minimum":0}})"},
                "Columns of each top. Ranges may overlap.", kRequired,
                [&](const config::JsonNode& list) { read_ranges(list); });
    expect_bottoms(s, 1);
    if (given) expect_tops(s, ranges_.size());
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    LayerShape shape = {.tops = {}, .rows = Rows::kAlone};
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const auto& [begin, end] = ranges_[i];
      if (end > dims[0].back())
        config::fail_expected(node().find("ranges")->elements()[i],
                              fmt::format("a range within the {} columns of \"{}\" {}",
                                          dims[0].back(), bottoms()[0], to_string(dims[0])));
      shape.tops.push_back(dims[0]);
      shape.tops.back().back() = end - begin;
      shape.summary += fmt::format("{}[{},{})", i == 0 ? "" : " ", begin, end);
    }
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor& x = io.bottoms[0];
    for (size_t i = 0; i < ranges_.size(); ++i)
      add_columns_step(plan, io.type, fmt::format("{}.fprop{}", name(), i),
                       {{.from = x.value,
                         .width = x.dims.back(),
                         .begin = ranges_[i].begin,
                         .columns = ranges_[i].width()}},
                       io.tops[i].value, ranges_[i].width(), rows_of(x));
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor& x = io.bottoms[0];
    std::vector<ColumnMove> moves;
    for (size_t i = 0; i < ranges_.size(); ++i)
      moves.push_back({.from = io.tops[i].grad,
                       .width = ranges_[i].width(),
                       .to_begin = ranges_[i].begin,
                       .columns = ranges_[i].width()});
    add_columns_step(plan, io.type, name() + ".bprop", moves, x.grad, x.dims.back(), rows_of(x));
  }

 private:
  void read_ranges(const config::JsonNode& list) {
    if (list.kind() != config::JsonNode::Kind::kArray || list.elements().empty())
      config::fail_expected(list, "a list of [begin, end) pairs");
    for (const config::JsonNode& pair : list.elements()) {
      const bool ok =
          pair.kind() == config::JsonNode::Kind::kArray && pair.elements().size() == 2 &&
          std::all_of(pair.elements().begin(), pair.elements().end(),
                      [](const auto& v) { return v.kind() == config::JsonNode::Kind::kInteger; });
      if (!ok) config::fail_expected(pair, "a pair of integers [begin, end)");
      const int64_t begin = pair.elements()[0].integer(), end = pair.elements()[1].integer();
      if (begin < 0 || end <= begin) config::fail_expected(pair, "0 <= begin < end");
      ranges_.push_back({begin, end});
    }
  }

  struct SliceRange {
    int64_t begin = 0, end = 0;
    [[nodiscard]] int64_t width() const { return end - begin; }
  };
  std::vector<SliceRange> ranges_;
};

}  // namespace

std::unique_ptr<Layer> make_slice(Block& s) { return std::make_unique<SliceLayer>(s); }

}  // namespace hlite::network
