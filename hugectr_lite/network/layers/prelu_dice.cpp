// PReLU_Dice: the activation of Deep Interest Network, y = x (alpha + (1 - alpha) sigmoid(x_hat))
// on every column of [B,n], or of [m B,n] (ops/dice.h). x_hat is x normalised over the batch, that
// of all ranks, and in evaluation, as in the paper, by running statistics; HugeCTR takes those of
// the evaluation's batch, and leaves the ways through mean and variance out of the gradient. With
// `trained`, alpha [n] is a parameter, as in the paper.
#include "hugectr_lite/ops/dice.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/batch_statistics.h"

namespace hlite::network {
namespace {

class PReluDiceLayer : public Layer {
 public:
  explicit PReluDiceLayer(Block& s) : Layer(s) {
    s.about("Activation of Deep Interest Network, on columns.");
    if (auto param = s.object("prelu_dice_param", "Its parameters.", kRequired)) {
      const auto declare_number = [&](const char* key, const char* later, double* field,
                                      const config::NumberRange& range, const char* meaning,
                                      const char* meaning_of_later) {
        param->number(key, field, range, meaning, otherwise("required, under one of its names"));
        param->number(later, field, range, meaning_of_later, otherwise("none"));
        if (param->has(key) && param->has(later))
          param->refuse(later, fmt::format("expected either {} or {}, found both", key, later));
        if (!param->has(later)) param->missing(key);
      };
      declare_number("alpha", "elu_alpha", &alpha_, {.min = -1e6, .max = 1e6},
                     "The slope for small x.", "The name of `alpha` in later versions.");
      declare_number("epsilon", "eps", &epsilon_, {.min = 1e-12, .max = 1},
                     "Added to the variance.", "The name of `epsilon` in later versions.");
      param->boolean("trained", &trained_,
                     "Extension: each column has an alpha of its own, `<name>.alpha`, which begins "
                     "as `alpha`.");
    }
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    if (!dims[0].folded) expect_rank(dims[0], 1, 0);
    LayerShape shape = {.tops = {dims[0]},
                        .rows = Rows::kAlike,
                        .summary = fmt::format("{}alpha {}, epsilon {}", trained_ ? "trained " : "",
                                               alpha_, epsilon_)};
    const int64_t n = dims[0].back();
    if (trained_)
      shape.parameters = {
          {"alpha", {n}, {InitializerType::kConstant, 0, n, static_cast<float>(alpha_)}}};
    BatchStatistics::ask_for(shape, n);
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BatchStatistics s(io, epsilon_);
    s.emit_sums(plan, io, name(), phase);
    std::vector<BufferId> reads = s.sources(phase);
    const Alpha alpha = alpha_of(io);
    reads.insert(reads.end(), {x.value, alpha.trained});
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = reads, .writes = {y.value, s.fixed()}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::dice_forward<T>(v.exec, s.rows(v, x.value), s.make(v, phase),
                                          alpha.get(s, v), s.rows(v, y.value));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BatchStatistics s(io, epsilon_);
    const Alpha alpha = alpha_of(io);
    if (trained_)
      add_typed_step(plan, io.type,
                     {.name = name() + ".wgrad",
                      .reads = {x.value, y.grad, s.fixed()},
                      .writes = {s.gradient_sums(), s.workspace(), io.params[0].grad}},
                     [=, grad = io.params[0].grad]<typename T>(const StepViews<T>& v) {
                       ops::dice_alpha_gradient<T>(v.exec, s.rows(v, x.value), s.rows(v, y.grad),
                                                   s.get(v), s.parts(v), s.gradient_sums(v),
                                                   s.column(v, grad));
                     });
    if (x.grad == kNoBuffer) return;
    add_typed_step(plan, io.type,
                   {.name = name() + ".gradient_sums",
                    .reads = {x.value, y.grad, alpha.trained, s.fixed()},
                    .writes = {s.gradient_sums(), s.workspace()}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::dice_gradient_sums<T>(v.exec, s.rows(v, x.value), s.rows(v, y.grad),
                                                s.get(v), alpha.get(s, v), s.parts(v),
                                                s.gradient_sums(v));
                   });
    s.emit_gradient_gather(plan, io, name());
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {x.value, y.grad, alpha.trained, s.all_gradient_sums(), s.fixed()},
                    .writes = {x.grad, s.fixed()}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::dice_backward<T>(v.exec, s.rows(v, x.value), s.rows(v, y.grad),
                                           s.with_gradient_means(v), alpha.get(s, v),
                                           s.rows(v, x.grad));
                   });
  }

  void emit_after_backward(plan::Plan& plan, const LayerIo& io) const override {
    constexpr double kFactor = 0.1;  // the dialect has no key for it
    BatchStatistics(io, epsilon_).emit_running(plan, io, name(), kFactor);
  }

 private:
  struct Alpha {
    float all = 0;
    BufferId trained = kNoBuffer;
    template <typename T>
    [[nodiscard]] ops::DiceAlpha get(const BatchStatistics& s, const StepViews<T>& v) const {
      if (trained == kNoBuffer) return all;
      return Vector<const float>(s.column(v, trained));
    }
  };
  [[nodiscard]] Alpha alpha_of(const LayerIo& io) const {
    return {static_cast<float>(alpha_), trained_ ? io.params[0].value : kNoBuffer};
  }

  double alpha_ = 0, epsilon_ = 0;
  bool trained_ = false;
};

}  // namespace

std::unique_ptr<Layer> make_prelu_dice(Block& s) { return std::make_unique<PReluDiceLayer>(s); }

}  // namespace hlite::network
