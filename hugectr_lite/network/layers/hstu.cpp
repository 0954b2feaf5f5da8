// HSTU: a layer of hierarchical sequential transduction units (Zhai et al., "Actions Speak Louder
// than Words", 2024; formulas of DLRM-HSTU) over the valid rows x of a history [B,N,D]:
//
//   [U, V, Q, K] = LN(x) W_uvqk + b, in each H heads of `hidden_dim` c or `attention_dim` a
//   O = attention of V, Q and K (ops/hstu_attention.h), Y = SiLU(U) * LN(O)
//   y = x + dropout([SiLU(U), O, Y] W_o)
//
// On the CPU it works on packed rows (packing.h), and of a layer whose last rows alone are read it
// makes those: their attention, gate and output. Elsewhere padding is computed too, as zeros above
// and in the gradient that comes from there make it nothing.
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/batch_norm.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/hstu_attention.h"
#include "hugectr_lite/ops/layer_norm.h"
#include "hugectr_lite/ops/sequence.h"

namespace hlite::network {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 20;  // of a history

class HstuLayer final : public Layer {
 public:
  explicit HstuLayer(Block& s) : Layer(s) {
    s.about(
        "Extension: a layer of HSTU over the valid rows of a history [B,N,D] and its lengths: "
        "pointwise attention without softmax, gated, with a residual. N is the second dimension of "
        "the tensor, not the longest history of a batch.");
    if (auto param = s.object("hstu_param", "Its parameters.", kRequired)) {
      param->integer("num_heads", &heads_, {.min = 1, .max = 1024}, "Heads H.", kRequired);
      param->integer("attention_dim", &a_, {.min = 1, .max = 1024},
                     "Numbers of a query and of a key in each head; on a GPU at most 256.",
                     kRequired);
      param->integer("hidden_dim", &c_, {.min = 1, .max = 1024},
                     "Numbers of a value in each head; on a GPU at most 256.", kRequired);
      param->boolean("causal", &mask_.causal, "Whether rows see none after them.");
      param->number("eps", &epsilon_, {.min = 1e-12, .max = 1},
                    "Added to the variances of both normalizations.");
      param->integer("max_attn_len", &mask_.window, {.min = 0, .max = kMostRows},
                     "Rows see none that are more than so many rows away; 0: any distance.");
      param->integer("contextual_seq_len", &mask_.context, {.min = 0, .max = kMostRows},
                     "So many rows in front see all rows and are seen by all.");
      param->integer("num_candidates", &mask_.candidates, {.min = 0, .max = kMostRows},
                     "So many valid rows at the end are seen by themselves alone.");
      param->number("dropout", &dropout_, kDropoutRates,
                    "Share of numbers of the product with output_weight that become 0.");
      param->boolean("group_norm", &group_norm_,
                     "Whether each head of the attention is normalized by itself.");
      if (mask_.window > 0) ++mask_.window;  // of the row itself, too
    }
    expect_bottoms(s, 2);
    expect_tops(s, 1);
    traits_.takes_lengths = true;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const Dims& x = dims[0];
    expect_rank(x, 2, 0);
    expect_lengths(dims, 1, 0);
    Dims top = x;
    top.lengths = dims[1].lengths;
    const int64_t n = x[0], d = x[1], hidden = heads_ * c_, uvqk = 2 * heads_ * (a_ + c_);
    const int64_t widest = std::max(d, hidden);
    const auto norm = [&](const std::string& name, int64_t width) -> std::vector<ParameterSpec> {
      return {{name + "_gamma", {width}, {InitializerType::kOne, 0, width}},
              {name + "_beta", {width}, {InitializerType::kZero, 0, width}}};
    };
    LayerShape shape = {
        .tops = {top},
        .rows = Rows::kCounted,
        .parameters = norm("input", d),
        .workspace_bytes =
            (ops::terms_workspace(widest) + 2 * widest) * static_cast<int64_t>(sizeof(double)),
        // In the order of HstuPlace. Of statistics two floats, kept as numbers of 16 bits or more.
        .kept = {n * d, 4 * n, n * uvqk, n * hidden, n * hidden, 4 * n * groups(), n * hidden,
                 n * hidden, n * 3 * hidden, n * uvqk, n * d},
        .summary = fmt::format("{} head{} of {} and {}{}", heads_, heads_ == 1 ? "" : "s", a_, c_,
                               mask_.causal ? ", causal" : ""),
        .takes_packed = {0},
        .packs_with = std::vector<size_t>{},
        .zero_padding = true,
        .mixes_rows = true};
    const auto add = [&](ParameterSpec parameter) { shape.parameters.push_back(parameter); };
    add({"uvqk_weight", {d, uvqk}, {InitializerType::kXavierUniform, d, uvqk}});
    add({"uvqk_bias", {uvqk}, {InitializerType::kZero, 0, uvqk}});
    for (const ParameterSpec& parameter : norm("output", hidden)) add(parameter);
    add({"output_weight", {3 * hidden, d}, {InitializerType::kXavierUniform, 3 * hidden, d}});
    shape.heads = {std::max(a_, c_), ops::kWidestHstuHead};
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const HstuPlace p = place_of(io);
    const bool train = phase == Phase::kTrain;
    const auto multiply = [train]<typename T>(const Exec& exec, Matrix<T> x, Matrix<T> w,
                                              Vector<T> bias, Matrix<T> y) {
      if (train)
        ops::fully_connected_forward<T>(exec, x, w, bias, false, y);
      else
        ops::fully_connected_evaluate<T>(exec, x, w, bias, false, y);
    };
    add_typed_step(plan, io.type,
                   {.name = name() + ".uvqk",
                    .reads = {p.x.value, p.input.gamma.value, p.input.beta.value,
                              p.uvqk_weight.working, p.uvqk_bias.working, p.x.offsets},
                    .writes = {p.normed_x, p.input.statistics, p.uvqk},
                    .flops_per_sample = p.uvqk_flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     p.normalize<T>(v, p.input, p.x, p.x.value, p.normed_x);
                     multiply(v.exec, p.rows(v, p.normed_x, p.d), p.uvqk_weights(v),
                              vector<T>(v.buffers, p.uvqk_bias.working, p.width),
                              p.rows(v, p.uvqk, p.width));
                   });
    add_typed_step(plan, io.type,
                   {.name = name() + ".attention",
                    .reads = {p.uvqk, p.lengths, p.x.offsets, p.y.offsets},
                    .writes = {p.o},
                    .flops_per_sample = p.attention_flops(2)},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::hstu_attention_forward<T>(v.exec, p.tensors(v), p.made(v, p.o, p.hidden));
                   });
    add_u(plan, io, p, ".u", p.gated, p.u);
    add_typed_step(plan, io.type,
                   {.name = name() + ".gate",
                    .reads = {p.u, p.o, p.output.gamma.value, p.output.beta.value, p.y.offsets},
                    .writes = {p.u, p.output.statistics, p.normed_o}},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Vector<T> u = v.flat(p.u, p.inner(p.y));
                     ops::activation_forward<T>(v.exec, ops::Silu(), u, u);
                     p.normalize<T>(v, p.output, p.y, p.o, p.normed_o);
                   });
    add_elementwise_step(plan, io.type, name() + ".y", ops::Elementwise::kProduct,
                         {p.u, p.normed_o}, p.gated, p.inner(p.y));
    const int64_t h = p.hidden;
    add_columns_step(plan, io.type, name() + ".concat",
                     {{p.u, h, 0, 0, h}, {p.o, h, 0, h, h}, {p.gated, h, 0, 2 * h, h}}, p.parts,
                     3 * h, rows_of(p.y));
    add_typed_step(plan, io.type,
                   {.name = name() + ".output",
                    .reads = {p.parts, p.output_weight.working, p.y.offsets},
                    .writes = {p.y.value},
                    .flops_per_sample = p.output_flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     multiply(v.exec, p.made(v, p.parts, 3 * p.hidden), p.output_weights(v),
                              Vector<T>{}, p.made(v, p.y.value, p.d));
                   });
    if (train && dropout_ > 0)
      add_dropout_step(plan, io, dropout(), name() + ".dropout", p.y.value, p.y.value, p.y);
    if (p.makes_fewer()) add_move(plan, io, ".last", p.x, p.x.value, p.y, p.spare);
    add_elementwise_step(plan, io.type, name() + ".residual", ops::Elementwise::kSum,
                         {p.y.value, p.makes_fewer() ? p.spare : p.x.value}, p.y.value, p.y);
    clear_padding(plan, io, p, ".padding", p.y.value);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const HstuPlace p = place_of(io);
    clear_padding(plan, io, p, ".dpadding", p.y.grad);
    const BufferId dproduct = dropout_ > 0 ? p.spare : p.y.grad;
    if (dropout_ > 0)
      add_dropout_step(plan, io, dropout(), name() + ".ddropout", p.y.grad, dproduct, p.y);
    add_typed_step(plan, io.type,
                   {.name = name() + ".output_wgrad",
                    .lane = io.weight_gradient_lane,
                    .reads = {p.parts, dproduct, p.y.offsets},
                    .writes = {p.output_weight.grad},
                    .flops_per_sample = p.output_flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::fully_connected_backward_weights<T>(
                         v.exec, p.made(v, p.parts, 3 * p.hidden), p.made(v, dproduct, p.d),
                         matrix(v.buffers, p.output_weight.grad, 3 * p.hidden, p.d));
                   });
    add_typed_step(plan, io.type,
                   {.name = name() + ".output_bprop",
                    .reads = {dproduct, p.output_weight.working, p.y.offsets},
                    .writes = {p.parts},
                    .flops_per_sample = p.output_flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::fully_connected_backward_data<T>(v.exec, p.made(v, dproduct, p.d),
                                                           p.output_weights(v),
                                                           p.made(v, p.parts, 3 * p.hidden));
                   });
    emit_gate_backward(plan, io, p);
    add_typed_step(plan, io.type,
                   {.name = name() + ".attention_bprop",
                    .reads = {p.uvqk, p.normed_o, p.duvqk, p.lengths, p.x.offsets, p.y.offsets},
                    .writes = {p.duvqk},
                    .flops_per_sample = p.attention_flops(5)},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::hstu_attention_backward<T>(v.exec, p.tensors(v),
                                                     p.made(v, p.normed_o, p.hidden),
                                                     p.rows(v, p.duvqk, p.width));
                   });
    add_typed_step(plan, io.type,
                   {.name = name() + ".uvqk_wgrad",
                    .lane = io.weight_gradient_lane,
                    .reads = {p.normed_x, p.duvqk, p.x.offsets},
                    .writes = {p.uvqk_weight.grad, p.uvqk_bias.grad},
                    .flops_per_sample = p.uvqk_flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Matrix<T> d = p.rows(v, p.duvqk, p.width);
                     ops::bias_relu_backward<T>(v.exec, {}, d,
                                                vector(v.buffers, p.uvqk_bias.grad, p.width));
                     ops::fully_connected_backward_weights<T>(
                         v.exec, p.rows(v, p.normed_x, p.d), d,
                         matrix(v.buffers, p.uvqk_weight.grad, p.d, p.width));
                   });
    add_typed_step(plan, io.type,
                   {.name = name() + ".uvqk_bprop",
                    .reads = {p.duvqk, p.uvqk_weight.working, p.x.offsets},
                    .writes = {p.normed_x},
                    .flops_per_sample = p.uvqk_flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::fully_connected_backward_data<T>(v.exec, p.rows(v, p.duvqk, p.width),
                                                           p.uvqk_weights(v),
                                                           p.rows(v, p.normed_x, p.d));
                   });
    add_norm_backward(plan, io, p, p.input, p.x, name() + ".norm_bprop", p.x.value, p.normed_x);
    if (p.x.grad == kNoBuffer) return;
    if (p.makes_fewer()) add_move(plan, io, ".dlast", p.y, p.y.grad, p.x, p.x.grad);
    add_elementwise_step(plan, io.type, name() + ".bprop", ops::Elementwise::kSum,
                         {p.normed_x, p.makes_fewer() ? p.x.grad : p.y.grad}, p.x.grad, p.x);
  }

 private:
  // A normalization of rows, or of `groups` parts of each.
  struct Norm {
    LayerParameter gamma, beta;
    BufferId statistics = kNoBuffer;
    int64_t width = 0, groups = 1;
  };
  // Kept from forward to backward; names are those of the values, whose gradients some places get.
  struct HstuPlace {
    LayerTensor x, y;
    Norm input, output;
    LayerParameter uvqk_weight, uvqk_bias, output_weight;
    BufferId lengths = kNoBuffer, workspace = kNoBuffer;
    BufferId normed_x = kNoBuffer, uvqk = kNoBuffer, u = kNoBuffer, o = kNoBuffer;
    BufferId normed_o = kNoBuffer, gated = kNoBuffer;
    BufferId parts = kNoBuffer;  // [U, O, Y]
    BufferId duvqk = kNoBuffer;  // its gradient
    // x in the rows of y, where these are fewer, then the gradient of the product with output_weight
    BufferId spare = kNoBuffer;
    int64_t n = 0, d = 0, heads = 1, a = 0, c = 0, hidden = 0, width = 0;
    float epsilon = 0;
    ops::HstuMask mask;

    template <typename T>
    [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id, int64_t columns) const {
      return matrix<T>(v.buffers, id, v.count(rows_of(x)), columns);
    }
    // The same of y.
    template <typename T>
    [[nodiscard]] Matrix<T> made(const StepViews<T>& v, BufferId id, int64_t columns) const {
      return matrix<T>(v.buffers, id, v.count(rows_of(y)), columns);
    }
    // The last rows alone.
    [[nodiscard]] bool makes_fewer() const { return x.offsets != y.offsets; }
    template <typename T>
    [[nodiscard]] Matrix<T> uvqk_weights(const StepViews<T>& v) const {
      return matrix<T>(v.buffers, uvqk_weight.working, d, width);
    }
    template <typename T>
    [[nodiscard]] Matrix<T> output_weights(const StepViews<T>& v) const {
      return matrix<T>(v.buffers, output_weight.working, 3 * hidden, d);
    }
    // What has a row of H c numbers for each of x or y.
    [[nodiscard]] LayerTensor inner(const LayerTensor& like) const {
      return {.dims = {n, hidden}, .offsets = like.offsets};
    }
    template <typename T>
    void normalize(const StepViews<T>& v, const Norm& of, const LayerTensor& like, BufferId from,
                   BufferId to) const {
      const int64_t all = v.count(rows_of(like)) * of.groups, columns = of.width / of.groups;
      ops::layer_norm_forward<T>(v.exec, matrix<T>(v.buffers, from, all, columns),
                                 vector(v.buffers, of.gamma.value, of.width),
                                 vector(v.buffers, of.beta.value, of.width), epsilon,
                                 matrix(v.buffers, of.statistics, all, 2),
                                 matrix<T>(v.buffers, to, all, columns));
    }
    template <typename T>
    [[nodiscard]] ops::HstuTensors<T> tensors(const StepViews<T>& v) const {
      ops::HstuTensors<T> in{.uvqk = rows(v, uvqk, width),
                             .lengths = vector(v.buffers, lengths, v.batch),
                             .n = n,
                             .heads = heads,
                             .attention_dim = a,
                             .hidden_dim = c,
                             .scale = 1 / static_cast<float>(n),
                             .mask = mask};
      if (x.offsets != kNoBuffer) in.offsets = v.offsets(x.offsets);
      if (makes_fewer()) in.queries = v.offsets(y.offsets);
      return in;
    }
    [[nodiscard]] double uvqk_flops() const { return 2.0 * static_cast<double>(n * d * width); }
    [[nodiscard]] double output_flops() const { return 6.0 * static_cast<double>(n * hidden * d); }
    // Of so many products of each row with those that it sees, half of them of queries and keys.
    [[nodiscard]] double attention_flops(int products) const {
      const int64_t seen = mask.window > 0 ? std::min(n, mask.window) : n;
      const double pairs = static_cast<double>(n * seen) * (mask.causal && seen == n ? 0.5 : 1);
      return pairs * products * static_cast<double>(heads * (a + c));
    }
  };
  [[nodiscard]] HstuPlace place_of(const LayerIo& io) const {
    const LayerTensor& x = io.bottoms[0];
    const auto& w = io.params;
    const auto& kept = io.kept;
    return {.x = x,
            .y = io.tops[0],
            .input = {w[0], w[1], kept[1], x.dims[1]},
            .output = {w[4], w[5], kept[5], heads_ * c_, groups()},
            .uvqk_weight = w[2],
            .uvqk_bias = w[3],
            .output_weight = w[6],
            .lengths = io.bottoms[1].value,
            .workspace = io.workspace,
            .normed_x = kept[0],
            .uvqk = kept[2],
            .u = kept[3],
            .o = kept[4],
            .normed_o = kept[6],
            .gated = kept[7],
            .parts = kept[8],
            .duvqk = kept[9],
            .spare = kept[10],
            .n = x.dims[0],
            .d = x.dims[1],
            .heads = heads_,
            .a = a_,
            .c = c_,
            .hidden = heads_ * c_,
            .width = 2 * heads_ * (a_ + c_),
            .epsilon = static_cast<float>(epsilon_),
            .mask = mask_};
  }

  // to [rows, H c] = the sum of these columns.
  struct Columns {
    BufferId from = kNoBuffer;
    int64_t width = 0, begin = 0;
  };
  void add_part(plan::Plan& plan, const LayerIo& io, const HstuPlace& p, const char* step,
                const std::vector<Columns>& from, BufferId to) const {
    std::vector<ColumnMove> moves;
    for (const Columns& of : from) moves.push_back({of.from, of.width, of.begin, 0, p.hidden});
    add_columns_step(plan, io.type, name() + step, moves, to, p.hidden, rows_of(p.y));
  }
  // to [rows of y, H c] = u before its activation; `room` is for all rows.
  void add_u(plan::Plan& plan, const LayerIo& io, const HstuPlace& p, const char* step,
             BufferId room, BufferId to) const {
    add_columns_step(plan, io.type, name() + step, {{p.uvqk, p.width, 0, 0, p.hidden}},
                     p.makes_fewer() ? room : to, p.hidden, rows_of(p.x));
    if (p.makes_fewer())
      add_move(plan, io, std::string(step) + "_last", p.inner(p.x), room, p.inner(p.y), to);
  }
  // to = the rows of `from` that both have, and 0 for others.
  void add_move(plan::Plan& plan, const LayerIo& io, const std::string& step, const LayerTensor& x,
                BufferId from, const LayerTensor& y, BufferId to) const {
    add_typed_step(
        plan, io.type,
        {.name = name() + step, .reads = {from, x.offsets, y.offsets}, .writes = {to}},
        [=]<typename T>(const StepViews<T>& v) {
          ops::move_rows<T>(
              v.exec,
              {.kind = ops::RowMove::Kind::kSame, .from_rows = v.rows(x), .to_rows = v.rows(y)},
              v.cube(from, x.dims), v.cube(to, y.dims));
        });
  }

  // The gradients of the three parts, which lie in p.parts, become that of o, in p.normed_o, and
  // that of u before its activation, in p.duvqk, whose other columns become 0.
  void emit_gate_backward(plan::Plan& plan, const LayerIo& io, const HstuPlace& p) const {
    const int64_t h = p.hidden;
    const BufferId dy = p.duvqk, d_normed_o = p.gated, du = p.u;
    add_part(plan, io, p, ".dy", {{p.parts, 3 * h, 2 * h}}, dy);
    add_elementwise_step(plan, io.type, name() + ".dnorm", ops::Elementwise::kProduct, {dy, p.u},
                         d_normed_o, p.inner(p.y));
    add_elementwise_step(plan, io.type, name() + ".dgate", ops::Elementwise::kProduct,
                         {p.normed_o, dy}, p.normed_o, p.inner(p.y));
    add_part(plan, io, p, ".du", {{p.parts, 3 * h, 0}, {p.normed_o, h, 0}}, du);
    const BufferId before = p.normed_o;
    add_u(plan, io, p, ".u_again", p.duvqk, before);
    add_typed_step(
        plan, io.type,
        {.name = name() + ".gate_bprop", .reads = {before, du, p.y.offsets}, .writes = {du}},
        [=]<typename T>(const StepViews<T>& v) {
          const Vector<T> d = v.flat(du, p.inner(p.y));
          ops::activation_backward<T>(v.exec, ops::Silu(), v.flat(before, p.inner(p.y)), d, d);
        });
    add_norm_backward(plan, io, p, p.output, p.y, name() + ".output_norm_bprop", p.o, d_normed_o);
    add_part(plan, io, p, ".do", {{p.parts, 3 * h, h}, {d_normed_o, h, 0}}, p.normed_o);
    const BufferId all_du = p.makes_fewer() ? p.gated : du;
    if (p.makes_fewer()) add_move(plan, io, ".du_all", p.inner(p.y), du, p.inner(p.x), all_du);
    add_columns_step(plan, io.type, name() + ".duvqk", {{all_du, h, 0, 0, h}}, p.duvqk, p.width,
                     rows_of(p.x));
  }

  // The gradients of a normalization's parameters, and of its input in the place of that of its
  // output.
  void add_norm_backward(plan::Plan& plan, const LayerIo& io, const HstuPlace& p, const Norm& of,
                         const LayerTensor& like, const std::string& step, BufferId x,
                         BufferId gradient) const {
    add_typed_step(
        plan, io.type,
        {.name = step,
         .reads = {x, gradient, of.statistics, of.gamma.value, like.offsets},
         .writes = {gradient, p.workspace, of.gamma.grad, of.beta.grad}},
        [=]<typename T>(const StepViews<T>& v) {
          const int64_t rows = v.count(rows_of(like)), all = rows * of.groups;
          const Matrix<float> statistics = matrix(v.buffers, of.statistics, all, 2);
          double* const at = v.buffers.template data<double>(p.workspace);
          const int64_t parts = ops::terms_workspace(of.width);
          const Matrix<double> sums(at + parts, 2, of.width);
          ops::layer_norm_gradient_sums<T>(v.exec, matrix<T>(v.buffers, x, rows, of.width),
                                           matrix<T>(v.buffers, gradient, rows, of.width),
                                           statistics, {at, parts}, sums);
          ops::batch_norm_parameter_gradients(v.exec, sums,
                                              vector(v.buffers, of.gamma.grad, of.width),
                                              vector(v.buffers, of.beta.grad, of.width));
          const auto each = [&](BufferId id) {
            return matrix<T>(v.buffers, id, all, of.width / of.groups);
          };
          ops::layer_norm_backward<T>(v.exec, each(x), each(gradient), statistics,
                                      vector(v.buffers, of.gamma.value, of.width), each(gradient));
        });
  }

  // Where rows are not packed.
  void clear_padding(plan::Plan& plan, const LayerIo& io, const HstuPlace& p, const char* step,
                     BufferId rows) const {
    if (p.x.offsets != kNoBuffer) return;
    add_typed_step(plan, io.type,
                   {.name = name() + step, .reads = {rows, p.lengths}, .writes = {rows}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::move_rows<T>(v.exec, {.lengths = vector(v.buffers, p.lengths, v.batch)},
                                       v.cube(rows, p.y.dims), v.cube(rows, p.y.dims));
                   });
  }

  [[nodiscard]] int64_t groups() const { return group_norm_ ? heads_ : 1; }
  [[nodiscard]] DropoutSpec dropout() const {
    return {dropout_, random::stream_of(name() + ".mask")};
  }

  int64_t heads_ = 1, a_ = 1, c_ = 1;
  double epsilon_ = 1e-6, dropout_ = 0;
  bool group_norm_ = false;
  ops::HstuMask mask_;
};

}  // namespace

std::unique_ptr<Layer> make_hstu(Block& s) { return std::make_unique<HstuLayer>(s); }

}  // namespace hlite::network
