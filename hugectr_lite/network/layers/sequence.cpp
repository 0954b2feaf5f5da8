// Layers of histories (Dims::lengths; ops/sequence.h).
//
// SequenceMask: of two lengths, [B,1,f,t] with 1 where both count, and with `causal` the second
// is not after the first. SequenceConcat: the valid rows of several tensors of a sample one after
// the other, and how many there are. SequenceLast: the last `count` valid rows, after zeros where
// there are fewer. PositionEmbedding: adds a trained row to each valid one; parameter weight [T,W].
#include "hugectr_lite/ops/sequence.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 20;  // of a history

template <typename T>
Vector<const float> lengths_of(const StepViews<T>& v, BufferId id) {
  return vector(v.buffers, id, v.batch);
}

// to <- rows of `from`. `how` but for its lengths, which are in `reads`.
struct MoveStep {
  std::string name;
  LayerTensor from, to;
  ops::RowMove::Kind kind = ops::RowMove::Kind::kValid;
  BufferId lengths = kNoBuffer, begin = kNoBuffer, end = kNoBuffer;
  bool is_last = false;
};
// Of values, or the other way round of gradients.
void add_move_step(plan::Plan& plan, FloatType type, const MoveStep& s, bool back) {
  const BufferId from = back ? s.from.grad : s.from.value, to = back ? s.to.grad : s.to.value;
  add_typed_step(plan, type,
                 {.name = s.name,
                  .reads = {from, s.lengths, s.begin, s.end, s.from.offsets, s.to.offsets},
                  .writes = {to}},
                 [=]<typename T>(const StepViews<T>& v) {
                   ops::move_rows<T>(v.exec,
                                     {.kind = s.kind,
                                      .lengths = lengths_of(v, s.lengths),
                                      .begin = lengths_of(v, s.begin),
                                      .end = lengths_of(v, s.end),
                                      .is_last = s.is_last,
                                      .from_rows = v.rows(s.from),
                                      .to_rows = v.rows(s.to)},
                                     v.cube(from, s.from.dims), v.cube(to, s.to.dims));
                 });
}

class SequenceMaskLayer : public Layer {
 public:
  explicit SequenceMaskLayer(Block& s) : Layer(s) {
    s.about(
        "Of two lengths, a mask [B,1,f,t]: 1 where both histories have an event, else 0. A dense "
        "feature [B,1] may say a length too.");
    s.integer("max_sequence_len_from", &from_, {.min = 1, .max = kMaxRows},
              "f: rows of the mask, which the first lengths count.");
    s.integer("max_sequence_len_to", &to_, {.min = 1, .max = kMaxRows},
              "t: columns of the mask, which the second lengths count.");
    s.boolean("causal", &causal_, "Extension: 0 too where the column is after the row.");
    expect_bottoms(s, 2);
    expect_tops(s, 1);
    traits_.takes_lengths = true;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i].is_lengths || dims[i] != Dims{1}) expect_lengths(dims, i, i);
    return {.tops = {{1, from_, to_}},
            .rows = Rows::kCounted,
            .summary = causal_ ? "causal" : "",
            .is_mask = true};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const BufferId from = io.bottoms[0].value, to = io.bottoms[1].value, y = io.tops[0].value;
    add_typed_step(
        plan, io.type, {.name = name() + ".fprop", .reads = {from, to}, .writes = {y}},
        [=, causal = causal_, dims = Dims{from_, to_}]<typename T>(const StepViews<T>& v) {
          ops::sequence_mask<T>(v.exec, lengths_of(v, from), lengths_of(v, to), causal,
                                v.cube(y, dims));
        });
  }
  void emit_backward(plan::Plan&, const LayerIo&) const override {}

 private:
  int64_t from_ = 1, to_ = 1;
  bool causal_ = false;
};

class SequenceConcatLayer : public Layer {
 public:
  explicit SequenceConcatLayer(Block& s) : Layer(s) {
    s.about(
        "Extension: the rows of each sample one after the other, then zeros; the second top is "
        "their number. Bottoms are tensors [B,k,W] and histories [B,T,W], each before its "
        "lengths.");
    expect_tops(s, 2);
    traits_.takes_lengths = true;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    Dims top = {0, dims[0].back()};
    const std::vector<Part> parts = parts_of(dims);
    for (const Part& part : parts) {
      const Dims& x = dims[part.x];
      expect_rank(x, 2, part.x);
      if (x[1] != top[1])
        config::fail_at(*node().find("bottom"),
                        fmt::format("expected rows of {} numbers like \"{}\", found \"{}\" {}",
                                    top[1], bottoms()[0], bottoms()[part.x], to_string(x)));
      if (part.lengths != 0)
        expect_lengths(dims, part.lengths, part.x);
      else if (!x.lengths.empty())
        config::fail_at(*node().find("bottom"),
                        fmt::format("expected \"{}\", the lengths of \"{}\", after it", x.lengths,
                                    bottoms()[part.x]));
      top[0] += x[0];
    }
    top.lengths = tops()[1];
    LayerShape shape = {.tops = {top, lengths_dims(tops()[1])},
                        .rows = Rows::kCounted,
                        // A float a sample where a part ends, kept as numbers of 16 bits or more.
                        .kept = std::vector<int64_t>(parts.size() - 1, 2),
                        .packs_with = std::vector<size_t>{}};
    for (const Part& part : parts)
      if (part.lengths != 0) shape.takes_packed.push_back(part.x);
    return shape;
  }

  void emit_lengths(plan::Plan& plan, const LayerIo& io) const override {
    const std::vector<Part> parts = parts_of(io);
    for (size_t p = 0; p < parts.size(); ++p) {
      const BufferId lengths = parts[p].lengths ? io.bottoms[parts[p].lengths].value : kNoBuffer;
      const BufferId begin = end_of(io, p), end = end_of(io, p + 1);
      add_typed_step(plan, FloatType::kFloat,
                     {.name = fmt::format("{}.count{}", name(), p),
                      .reads = {begin, lengths},
                      .writes = {end}},
                     [=, n = io.bottoms[parts[p].x].dims[0]]<typename T>(const StepViews<T>& v) {
                       ops::count_rows(v.exec, lengths_of(v, begin), lengths_of(v, lengths), n,
                                       vector(v.buffers, end, v.batch));
                     });
    }
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const std::vector<Part> parts = parts_of(io);
    for (size_t p = 0; p < parts.size(); ++p)
      add_move_step(plan, io.type,
                    {.name = fmt::format("{}.fprop{}", name(), p),
                     .from = io.bottoms[parts[p].x],
                     .to = io.tops[0],
                     .kind = ops::RowMove::Kind::kJoin,
                     .begin = end_of(io, p),
                     .end = end_of(io, p + 1),
                     .is_last = p + 1 == parts.size()},
                    false);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const std::vector<Part> parts = parts_of(io);
    for (size_t p = 0; p < parts.size(); ++p)
      add_move_step(plan, io.type,
                    {.name = fmt::format("{}.bprop{}", name(), p),
                     .from = io.tops[0],
                     .to = io.bottoms[parts[p].x],
                     .kind = ops::RowMove::Kind::kFromJoin,
                     .begin = end_of(io, p),
                     .end = end_of(io, p + 1)},
                    true);
  }

 private:
  struct Part {
    size_t x = 0, lengths = 0;  // bottoms; 0: all rows are valid
  };
  [[nodiscard]] static std::vector<Part> parts_of(const std::vector<Dims>& dims) {
    std::vector<Part> parts;
    for (size_t i = 0; i < dims.size(); ++i)
      if (i > 0 && dims[i].is_lengths && parts.back().x + 1 == i)
        parts.back().lengths = i;
      else
        parts.push_back({i, 0});
    return parts;
  }
  [[nodiscard]] static std::vector<Part> parts_of(const LayerIo& io) {
    std::vector<Dims> dims;
    for (const LayerTensor& x : io.bottoms) dims.push_back(x.dims);
    return parts_of(dims);
  }
  // Where the first p parts end.
  [[nodiscard]] static BufferId end_of(const LayerIo& io, size_t p) {
    if (p == 0) return kNoBuffer;
    return p <= io.kept.size() ? io.kept[p - 1] : io.tops[1].value;
  }
};

class SequenceLastLayer : public Layer {
 public:
  explicit SequenceLastLayer(Block& s) : Layer(s) {
    s.about("Extension: of a history [B,T,W] and its lengths, the last valid rows, [B,count,W].");
    s.integer("count", &count_, {.min = 1, .max = kMaxRows},
              "How many, oldest first; zeros stand in front where there are fewer.");
    expect_bottoms(s, 2);
    expect_tops(s, 1);
    traits_.takes_lengths = true;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 2, 0);
    expect_lengths(dims, 1, 0);
    if (count_ > dims[0][0])
      config::fail_expected(*node().find("count"),
                            fmt::format("at most {}, the rows of \"{}\" {}", dims[0][0],
                                        bottoms()[0], to_string(dims[0])));
    return {.tops = {{count_, dims[0][1]}},
            .rows = Rows::kCounted,
            .summary = fmt::format("{} of {}", count_, dims[0][0]),
            .takes_packed = {0},
            .last_rows = count_};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    add_move_step(plan, io.type,
                  {.name = name() + ".fprop",
                   .from = io.bottoms[0],
                   .to = io.tops[0],
                   .kind = ops::RowMove::Kind::kLatest,
                   .lengths = io.bottoms[1].value},
                  false);
  }
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    add_move_step(plan, io.type,
                  {.name = name() + ".bprop",
                   .from = io.tops[0],
                   .to = io.bottoms[0],
                   .kind = ops::RowMove::Kind::kFromLatest,
                   .lengths = io.bottoms[1].value},
                  true);
  }

 private:
  int64_t count_ = 1;
};

class PositionEmbeddingLayer : public Layer {
 public:
  explicit PositionEmbeddingLayer(Block& s) : Layer(s) {
    s.about(
        "Extension: adds a trained row to each valid row of a history [B,T,W]; the second bottom is "
        "its lengths. Padding becomes 0.");
    s.choice("from", &from_end_, {{"start", false}, {"end", true}},
             "Where positions are counted from: the oldest row, or the latest.");
    s.choice("weight_init", &weight_init_, named_initializers(), "Initializer of the rows.");
    expect_bottoms(s, 2);
    expect_tops(s, 1);
    traits_.takes_lengths = true;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 2, 0);
    expect_lengths(dims, 1, 0);
    Dims top = dims[0];
    top.lengths = dims[1].lengths;
    const int64_t n = top[0], width = top[1];
    return {.tops = {top},
            .rows = Rows::kCounted,
            .parameters = {{"weight", {n, width}, {weight_init_, n, width}}},
            .workspace_bytes = ops::positions_workspace(n * width) * kFloatBytes,
            .summary = fmt::format("{} from the {}", n, from_end_ ? "end" : "start"),
            .packs_with = std::vector<size_t>{0}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BufferId lengths = io.bottoms[1].value, w = io.params[0].working;
    add_typed_step(
        plan, io.type,
        {.name = name() + ".fprop", .reads = {x.value, lengths, w, y.offsets}, .writes = {y.value}},
        [=, from_end = from_end_]<typename T>(const StepViews<T>& v) {
          ops::add_positions<T>(v.exec, v.cube(x.value, x.dims), lengths_of(v, lengths), from_end,
                                matrix<T>(v.buffers, w, x.dims[0], x.dims[1]),
                                v.cube(y.value, x.dims), v.rows(y));
        });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BufferId lengths = io.bottoms[1].value, dw = io.params[0].grad;
    add_typed_step(
        plan, io.type,
        {.name = name() + ".wgrad",
         .lane = io.weight_gradient_lane,
         .reads = {y.grad, lengths, y.offsets},
         .writes = {dw, io.workspace}},
        [=, from_end = from_end_, workspace = io.workspace]<typename T>(const StepViews<T>& v) {
          ops::position_gradients<T>(
              v.exec, v.cube(y.grad, x.dims), lengths_of(v, lengths), from_end,
              vector(v.buffers, workspace, ops::positions_workspace(elements(x.dims))),
              matrix(v.buffers, dw, x.dims[0], x.dims[1]), v.rows(y));
        });
    if (y.offsets != kNoBuffer)
      return add_copy_step(plan, io.type, name() + ".bprop", y.grad, x.grad, y);
    add_move_step(plan, io.type,
                  {.name = name() + ".bprop", .from = y, .to = x, .lengths = lengths}, true);
  }

 private:
  bool from_end_ = false;
  InitializerType weight_init_ = InitializerType::kXavierUniform;
};

}  // namespace

std::unique_ptr<Layer> make_sequence_mask(Block& s) {
  return std::make_unique<SequenceMaskLayer>(s);
}
std::unique_ptr<Layer> make_sequence_concat(Block& s) {
  return std::make_unique<SequenceConcatLayer>(s);
}
std::unique_ptr<Layer> make_sequence_last(Block& s) {
  return std::make_unique<SequenceLastLayer>(s);
}
std::unique_ptr<Layer> make_position_embedding(Block& s) {
  return std::make_unique<PositionEmbeddingLayer>(s);
}

}  // namespace hlite::network
