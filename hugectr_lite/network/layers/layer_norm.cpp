// LayerNorm: each row along the last dimension of a tensor of any shape, normalised by its own mean
// and variance (ops/layer_norm.h). Parameters gamma and beta.
#include "hugectr_lite/ops/layer_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/batch_norm.h"

namespace hlite::network {
namespace {

class LayerNormLayer : public Layer {
 public:
  explicit LayerNormLayer(Block& s) : Layer(s) {
    s.about("Normalizes rows along the last dimension.");
    if (auto param = s.object("ln_param", "Its parameters.", kRequired)) {
      param->number("eps", &epsilon_, {.min = 1e-12, .max = 1}, "Added to the variance.",
                    kRequired);
      param->choice("gamma_init", &gamma_init_, named_initializers(), "Initializer of gamma.",
                    otherwise("ones"));
      param->choice("beta_init", &beta_init_, named_initializers(), "Initializer of beta.");
    }
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const int64_t n = dims[0].back();
    // Two floats a row, kept as numbers of 16 bits or more.
    constexpr int64_t kNumbers = 4;
    return {
        .tops = {dims[0]},
        .rows = Rows::kAlone,
        .parameters = {{"gamma", {n}, {gamma_init_, 0, n}}, {"beta", {n}, {beta_init_, 0, n}}},
        .workspace_bytes = (ops::terms_workspace(n) + 2 * n) * static_cast<int64_t>(sizeof(double)),
        .kept = {kNumbers * rows_of_sample(dims[0])},
        .summary = fmt::format("eps {}", epsilon_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const NormPlace p = place_of(io);
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop",
                    .reads = {p.x.value, p.gamma.value, p.beta.value, p.x.offsets},
                    .writes = {p.y.value, p.kept}},
                   [=, epsilon = static_cast<float>(epsilon_)]<typename T>(const StepViews<T>& v) {
                     ops::layer_norm_forward<T>(v.exec, p.rows(v, p.x.value),
                                                vector(v.buffers, p.gamma.value, p.n),
                                                vector(v.buffers, p.beta.value, p.n), epsilon,
                                                p.statistics(v), p.rows(v, p.y.value));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const NormPlace p = place_of(io);
    add_typed_step(
        plan, io.type,
        {.name = name() + ".wgrad",
         .reads = {p.x.value, p.y.grad, p.kept, p.x.offsets},
         .writes = {io.workspace, p.gamma.grad, p.beta.grad}},
        [=, workspace = io.workspace]<typename T>(const StepViews<T>& v) {
          double* const at = v.buffers.template data<double>(workspace);
          const int64_t parts = ops::terms_workspace(p.n);
          const Matrix<double> sums(at + parts, 2, p.n);
          ops::layer_norm_gradient_sums<T>(v.exec, p.rows(v, p.x.value), p.rows(v, p.y.grad),
                                           p.statistics(v), {at, parts}, sums);
          ops::batch_norm_parameter_gradients(v.exec, sums, vector(v.buffers, p.gamma.grad, p.n),
                                              vector(v.buffers, p.beta.grad, p.n));
        });
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {p.x.value, p.y.grad, p.kept, p.gamma.value, p.x.offsets},
                    .writes = {p.x.grad}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::layer_norm_backward<T>(
                         v.exec, p.rows(v, p.x.value), p.rows(v, p.y.grad), p.statistics(v),
                         vector(v.buffers, p.gamma.value, p.n), p.rows(v, p.x.grad));
                   });
  }

 private:
  struct NormPlace {
    LayerTensor x, y;
    LayerParameter gamma, beta;
    BufferId kept = kNoBuffer;
    int64_t n = 0;
    template <typename T>
    [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id) const {
      return matrix<T>(v.buffers, id, v.count(rows_of(x)), n);
    }
    template <typename T>
    [[nodiscard]] Matrix<float> statistics(const StepViews<T>& v) const {
      return matrix(v.buffers, kept, v.count(rows_of(x)), 2);
    }
  };
  [[nodiscard]] static NormPlace place_of(const LayerIo& io) {
    return {io.bottoms[0], io.tops[0], io.params[0],
            io.params[1],  io.kept[0], io.bottoms[0].dims.back()};
  }

  double epsilon_ = 1e-5;
  InitializerType gamma_init_ = InitializerType::kOne, beta_init_ = InitializerType::kZero;
};

}  // namespace

std::unique_ptr<Layer> make_layer_norm(Block& s) { return std::make_unique<LayerNormLayer>(s); }

}  // namespace hlite::network
