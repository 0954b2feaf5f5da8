// BatchNorm: every column of [B,n], or of [n B,V] its V columns, normalised over the batch, that of
// all ranks; in evaluation by running mean and variance (ops/batch_norm.h), which are saved with
// the weights. Parameters gamma and beta.
#include "hugectr_lite/ops/batch_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(config::ObjectReader& reader) : Layer(reader) {
    auto param = reader.object("bn_param");
    factor_ = param.number("factor", {.min = 0, .max = 1});
    epsilon_ = param.number("eps", {.min = 1e-12, .max = 1});
    gamma_init_ = param.value_or("gamma_init", InitializerType::kOne, named_initializers());
    beta_init_ = param.value_or("beta_init", InitializerType::kZero, named_initializers());
    param.finish();
    expect_bottoms(1);
    expect_tops(1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    if (!dims[0].folded) expect_rank(dims[0], 1, 0);
    const int64_t n = dims[0].back();
    const auto doubles = static_cast<int64_t>(sizeof(double));
    return {.tops = {dims[0]},
            .parameters = {{"gamma", {n}, {gamma_init_, 0, n}}, {"beta", {n}, {beta_init_, 0, n}}},
            .workspace_bytes = ops::batch_norm_workspace(n) * doubles,
            .running = {{"running_mean", {n}, {InitializerType::kZero, 0, n}},
                        {"running_variance", {n}, {InitializerType::kOne, 0, n}}},
            .fixed_bytes = ops::ColumnStatistics::kRows * n * kFloatBytes,
            .rank_sums = {2 * n, 2 * n},
            .summary = fmt::format("factor {}, eps {}", factor_, epsilon_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const Place p = place_of(io);
    std::vector<BufferId> by = io.running;  // what the statistics come from
    if (phase == Phase::kTrain) {
      add_typed_step(
          plan, io.type,
          {.name = name() + ".sums", .reads = {p.x.value}, .writes = {p.sums.mine, io.workspace}},
          [=, workspace = io.workspace]<typename T>(const StepViews<T>& v) {
            ops::batch_norm_sums<T>(v.exec, p.rows(v, p.x.value), p.parts(v, workspace),
                                    p.own(v, p.sums));
          });
      add_gather_step(plan, io, name() + ".sums_gather", p.sums);
      by = {p.sums.all};
    }
    by.insert(by.end(), {p.x.value, p.gamma.value, p.beta.value});
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = by, .writes = {p.y.value, p.fixed}},
                   [=, epsilon = epsilon_]<typename T>(const StepViews<T>& v) {
                     const auto statistics = p.statistics(v);
                     if (phase == Phase::kTrain)
                       ops::batch_norm_statistics(v.exec, p.all(v, p.sums), p.batch_rows(v),
                                                  epsilon, statistics);
                     else
                       ops::running_statistics(v.exec, p.running(v), epsilon, statistics);
                     ops::batch_norm_forward<T>(v.exec, p.rows(v, p.x.value), statistics,
                                                p.column(v, p.gamma.value),
                                                p.column(v, p.beta.value), p.rows(v, p.y.value));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const Place p = place_of(io);
    add_typed_step(plan, io.type,
                   {.name = name() + ".wgrad",
                    .reads = {p.x.value, p.y.grad, p.fixed},
                    .writes = {p.gradient_sums.mine, io.workspace, p.gamma.grad, p.beta.grad}},
                   [=, workspace = io.workspace]<typename T>(const StepViews<T>& v) {
                     const Matrix<double> sums = p.own(v, p.gradient_sums);
                     ops::batch_norm_gradient_sums<T>(v.exec, p.rows(v, p.x.value),
                                                      p.rows(v, p.y.grad), p.statistics(v),
                                                      p.parts(v, workspace), sums);
                     ops::batch_norm_parameter_gradients(v.exec, sums, p.column(v, p.gamma.grad),
                                                         p.column(v, p.beta.grad));
                   });
    if (p.x.grad == kNoBuffer) return;
    add_gather_step(plan, io, name() + ".gradients_gather", p.gradient_sums);
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {p.x.value, p.y.grad, p.gamma.value, p.gradient_sums.all, p.fixed},
                    .writes = {p.x.grad, p.fixed}},
                   [=]<typename T>(const StepViews<T>& v) {
                     const auto statistics = p.statistics(v);
                     ops::batch_norm_gradient_means(v.exec, p.all(v, p.gradient_sums),
                                                    p.batch_rows(v), statistics);
                     ops::batch_norm_backward<T>(v.exec, p.rows(v, p.x.value), p.rows(v, p.y.grad),
                                                 statistics, p.column(v, p.gamma.value),
                                                 p.rows(v, p.x.grad));
                   });
  }

  // Not in the forward pass: an exchange that does not fit is known by now at the latest.
  void emit_after_backward(plan::Plan& plan, const LayerIo& io) const override {
    const Place p = place_of(io);
    add_typed_step(
        plan, FloatType::kFloat,
        {.name = name() + ".running",
         .reads = {p.fixed, io.void_run, io.running[0], io.running[1]},
         .writes = io.running},
        [=, factor = factor_, void_run = io.void_run]<typename T>(const StepViews<T>& v) {
          ops::update_running(v.exec, p.statistics(v),
                              {.rows = p.batch_rows(v),
                               .factor = static_cast<float>(factor),
                               .skip = pointer<int32_t>(v.buffers, void_run)},
                              p.running(v));
        });
  }

 private:
  // What the steps work on.
  struct Place {
    LayerTensor x, y;
    LayerParameter gamma, beta;
    RankSums sums, gradient_sums;
    BufferId fixed = kNoBuffer, mean = kNoBuffer, variance = kNoBuffer;  // the latter two running
    int64_t sample_rows = 1, n = 0, ranks = 1;

    // Of this rank, and of all.
    template <typename T>
    [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id) const {
      return matrix<T>(v.buffers, id, v.batch * sample_rows, n);
    }
    template <typename T>
    [[nodiscard]] int64_t batch_rows(const StepViews<T>& v) const {
      return v.context.mean_over() * sample_rows;
    }
    template <typename T>
    [[nodiscard]] Vector<float> column(const StepViews<T>& v, BufferId id) const {
      return vector(v.buffers, id, n);
    }
    template <typename T>
    [[nodiscard]] Vector<double> parts(const StepViews<T>& v, BufferId id) const {
      return vector<double>(v.buffers, id, ops::batch_norm_workspace(n));
    }
    template <typename T>
    [[nodiscard]] Matrix<double> own(const StepViews<T>& v, const RankSums& of) const {
      return matrix<double>(v.buffers, of.mine, 2, n);
    }
    template <typename T>
    [[nodiscard]] View<double, 3> all(const StepViews<T>& v, const RankSums& of) const {
      return {v.buffers.template data<double>(of.all), ranks, 2, n};
    }
    template <typename T>
    [[nodiscard]] ops::RunningStatistics running(const StepViews<T>& v) const {
      return {column(v, mean), column(v, variance)};
    }
    template <typename T>
    [[nodiscard]] ops::ColumnStatistics statistics(const StepViews<T>& v) const {
      return {v.buffers.template data<float>(fixed), n};
    }
  };
  [[nodiscard]] static Place place_of(const LayerIo& io) {
    const Dims& dims = io.bottoms[0].dims;
    return {.x = io.bottoms[0],
            .y = io.tops[0],
            .gamma = io.params[0],
            .beta = io.params[1],
            .sums = io.rank_sums[0],
            .gradient_sums = io.rank_sums[1],
            .fixed = io.fixed,
            .mean = io.running[0],
            .variance = io.running[1],
            .sample_rows = rows_of_sample(dims),
            .n = dims.back(),
            .ranks = io.ranks()};
  }

  double factor_ = 1, epsilon_ = 1e-5;
  InitializerType gamma_init_, beta_init_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(config::ObjectReader& reader) {
  return std::make_unique<BatchNormLayer>(reader);
}

}  // namespace hlite::network
