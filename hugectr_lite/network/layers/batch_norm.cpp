// BatchNorm: normalizes every column of [B,n] or [m B,n] over the batch of all ranks. Evaluation
// uses the running mean and variance (ops/batch_norm.h), which are saved with the weights. The
// parameters are gamma and beta.
#include "hugectr_lite/ops/batch_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/batch_statistics.h"

namespace hlite::network {
namespace {

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(Block& s) : Layer(s) {
    s.about("Normalizes each column over the batch. Evaluation uses running statistics.");
    if (auto param = s.object("bn_param", "Its parameters.", kRequired)) {
      param->number("factor", &factor_, {.min = 0, .max = 1},
                    "Weight of the batch's mean and variance in the running statistics.",
                    kRequired);
      param->number("eps", &epsilon_, {.min = 1e-12, .max = 1}, "Added to the variance.",
                    kRequired);
      param->choice("gamma_init", &gamma_init_, named_initializers(), "Initializer of gamma.",
                    otherwise("ones"));
      param->choice("beta_init", &beta_init_, named_initializers(), "Initializer of beta.");
      param->accept("is_training",
                    "Accepted, without effect (HugeCTR 2.0): evaluations take the "
                    "running mean and variance.");
    }
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    if (!dims[0].folded) expect_rank(dims[0], 1, 0);
    const int64_t n = dims[0].back();
    LayerShape shape = {
        .tops = {dims[0]},
        .rows = Rows::kAlike,
        .parameters = {{"gamma", {n}, {gamma_init_, 0, n}}, {"beta", {n}, {beta_init_, 0, n}}},
        .summary = fmt::format("factor {}, eps {}", factor_, epsilon_)};
    BatchStatistics::ask_for(shape, n);
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BufferId gamma = io.params[0].value, beta = io.params[1].value;
    const BatchStatistics s(io, epsilon_);
    s.emit_sums(plan, io, name(), phase);
    std::vector<BufferId> reads = s.sources(phase);
    reads.insert(reads.end(), {x.value, gamma, beta});
    add_typed_step(
        plan, io.type, {.name = name() + ".fprop", .reads = reads, .writes = {y.value, s.fixed()}},
        [=]<typename T>(const StepViews<T>& v) {
          ops::batch_norm_forward<T>(v.exec, s.rows(v, x.value), s.make(v, phase),
                                     s.column(v, gamma), s.column(v, beta), s.rows(v, y.value));
        });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const LayerParameter gamma = io.params[0], beta = io.params[1];
    const BatchStatistics s(io, epsilon_);
    add_typed_step(plan, io.type,
                   {.name = name() + ".wgrad",
                    .reads = {x.value, y.grad, s.fixed()},
                    .writes = {s.gradient_sums(), s.workspace(), gamma.grad, beta.grad}},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Matrix<double> sums = s.gradient_sums(v);
                     ops::batch_norm_gradient_sums<T>(v.exec, s.rows(v, x.value), s.rows(v, y.grad),
                                                      s.get(v), s.parts(v), sums);
                     ops::batch_norm_parameter_gradients(v.exec, sums, s.column(v, gamma.grad),
                                                         s.column(v, beta.grad));
                   });
    if (x.grad == kNoBuffer) return;
    s.emit_gradient_gather(plan, io, name());
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {x.value, y.grad, gamma.value, s.all_gradient_sums(), s.fixed()},
                    .writes = {x.grad, s.fixed()}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::batch_norm_backward<T>(v.exec, s.rows(v, x.value), s.rows(v, y.grad),
                                                 s.with_gradient_means(v), s.column(v, gamma.value),
                                                 s.rows(v, x.grad));
                   });
  }

  void emit_after_backward(plan::Plan& plan, const LayerIo& io) const override {
    BatchStatistics(io, epsilon_).emit_running(plan, io, name(), factor_);
  }

 private:
  double factor_ = 1, epsilon_ = 1e-5;
  InitializerType gamma_init_ = InitializerType::kOne, beta_init_ = InitializerType::kZero;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(Block& s) { return std::make_unique<BatchNormLayer>(s); }

}  // namespace hlite::network
