// Times the dense part of a DLRM iteration, op by op, compared with the bare matrix products.
//
//   ops_bench [threads=2] [batch=2048] [rounds=15]
//
// Prints milliseconds, the least of all rounds: forward, backward, interaction, and the floor: the
// same products, each thread doing its share of the rows (of the columns for weight gradients)
// without biases, masks or sums.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/run_program.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/interaction.h"
#include "hugectr_lite/ops/mean_loss.h"

namespace hlite {
namespace {

using FloatMatrix = Tensor<float, 2>;

void fill(const FloatMatrix& m, float range) {
  static uint64_t stream = 0;
  random::fill_uniform(m.data(), m.size(), 1, ++stream, 0, -range, range);
}

struct Layer {
  FloatMatrix w, dw, b, db, y, dy;
};

// A chain of fully connected layers with ReLU, the last without where asked.
class Mlp {
 public:
  Mlp(int64_t batch, std::vector<int64_t> widths, bool last_relu)
      : x(batch, widths[0]), dx(batch, widths[0]), last_relu_(last_relu) {
    fill(x, 1);
    for (size_t l = 0; l + 1 < widths.size(); ++l) {
      const int64_t in = widths[l], out = widths[l + 1];
      layers.push_back({FloatMatrix(in, out), FloatMatrix(in, out), FloatMatrix(1, out),
                        FloatMatrix(1, out), FloatMatrix(batch, out), FloatMatrix(batch, out)});
      fill(layers.back().w, 1 / std::sqrt(static_cast<float>(in)));
      fill(layers.back().dy, 1);
    }
  }
  [[nodiscard]] Matrix<float> input(size_t l) const {
    return l ? layers[l - 1].y.view() : x.view();
  }
  [[nodiscard]] Matrix<float> input_gradient(size_t l) const {
    return l ? layers[l - 1].dy.view() : dx.view();
  }

  void forward(const Exec& exec) const {
    for (size_t l = 0; l < layers.size(); ++l) {
      const Layer& a = layers[l];
      ops::fully_connected_forward(exec, input(l), a.w.view(), {a.b.data(), a.b.size()},
                                   l + 1 < layers.size() || last_relu_, a.y.view());
    }
  }
  void backward(const Exec& exec, bool to_input) const {
    const Layer& top = layers.back();
    ops::bias_relu_backward(
        exec, {last_relu_ ? top.y.data() : nullptr, top.y.view().dim(0), top.y.view().dim(1)},
        top.dy.view(), {top.db.data(), top.db.size()});
    for (size_t l = layers.size(); l-- > 0;) {
      const Layer& a = layers[l];
      ops::fully_connected_backward_weights(exec, input(l), a.dy.view(), a.dw.view());
      if (l == 0) {
        if (to_input) ops::fully_connected_backward_data(exec, a.dy.view(), a.w.view(), dx.view());
        continue;
      }
      const Layer& low = layers[l - 1];
      const ops::LayerBelow<float> below{low.y.view(), {low.db.data(), low.db.size()}};
      ops::fully_connected_backward_data(exec, a.dy.view(), a.w.view(), low.dy.view(), below);
    }
  }

  // The bare products of forward (0), data gradients (1) and weight gradients (2).
  void products(const Exec& exec, int kind, bool to_input) const {
    using enum ops::Transpose;
    const int64_t batch = x.view().dim(0), parts = exec.threads().threads();
    for (size_t l = 0; l < layers.size(); ++l) {
      const int64_t in = layers[l].w.view().dim(0), out = layers[l].w.view().dim(1);
      if (kind == 1 && l == 0 && !to_input) continue;
      float *const xs = input(l).data(), *const dxs = input_gradient(l).data();
      float *const w = layers[l].w.data(), *const y = layers[l].y.data();
      float *const dy = layers[l].dy.data(), *const dw = layers[l].dw.data();
      exec.threads().run(parts, [&](int64_t p, int) {
        const int64_t r = batch * p / parts, m = batch * (p + 1) / parts - r;
        if (kind == 0)
          ops::gemm_piece({.m = m, .n = out, .k = in}, {xs + r * in, in}, {w, out},
                          {y + r * out, out});
        if (kind == 1)
          ops::gemm_piece({.tb = kYes, .m = m, .n = in, .k = out}, {dy + r * out, out}, {w, out},
                          {dxs + r * in, in});
        const bool by_rows = in >= out;
        const int64_t n = by_rows ? in : out, c = n * p / parts, cs = n * (p + 1) / parts - c;
        if (kind == 2 && by_rows)
          ops::gemm_piece({.ta = kYes, .m = cs, .n = out, .k = batch}, {xs + c, in}, {dy, out},
                          {dw + c * out, out});
        if (kind == 2 && !by_rows)
          ops::gemm_piece({.ta = kYes, .m = in, .n = cs, .k = batch}, {xs, in}, {dy + c, out},
                          {dw + c, out});
      });
    }
  }

  FloatMatrix x, dx;
  std::vector<Layer> layers;

 private:
  bool last_relu_;
};

struct Timed {
  const char* name;
  FunctionRef<void()> run;
  double ms = 1e9;
};

void model(const char* name, const Exec& exec, int64_t batch, int rounds,
           const std::vector<int64_t>& bottom_widths, const std::vector<int64_t>& top_widths,
           int64_t width) {
  constexpr int64_t kSlots = 26;
  const Mlp bottom(batch, bottom_widths, true), top(batch, top_widths, false);
  const Tensor<float, 3> slots(batch, kSlots, width), dslots(batch, kSlots, width);
  const FloatMatrix labels(batch, int64_t{1}), dlogits(batch, int64_t{1});
  random::fill_uniform(slots.data(), slots.size(), 3, 0, 0, -0.1f, 0.1f);
  const Mlp &b = bottom, &t = top;
  const auto last = [](const Mlp& m) -> const Layer& { return m.layers.back(); };
  float loss = 0;

  const auto bottom_fwd = [&] { b.forward(exec); };
  const auto top_fwd = [&] { t.forward(exec); };
  const auto inter_fwd = [&] {
    ops::interaction_forward(exec, last(b).y.view(), slots.view(), t.x.view());
  };
  const auto loss_run = [&] {
    ops::mean_loss(exec, last(t).y.view(), labels.view(), &loss, last(t).dy.view());
  };
  const auto top_bwd = [&] { t.backward(exec, true); };
  const auto inter_bwd = [&] {
    ops::interaction_backward(exec, last(b).y.view(), slots.view(), t.dx.view(), last(b).dy.view(),
                              dslots.view());
  };
  const auto bottom_bwd = [&] { b.backward(exec, false); };
  const auto floor_fwd = [&] {
    b.products(exec, 0, false);
    t.products(exec, 0, true);
  };
  const auto floor_dx = [&] {
    b.products(exec, 1, false);
    t.products(exec, 1, true);
  };
  const auto floor_dw = [&] {
    b.products(exec, 2, false);
    t.products(exec, 2, true);
  };
  Timed timed[] = {{"bottom forward", bottom_fwd},  {"interaction forward", inter_fwd},
                   {"top forward", top_fwd},        {"loss", loss_run},
                   {"top backward", top_bwd},       {"interaction backward", inter_bwd},
                   {"bottom backward", bottom_bwd}, {"floor forward", floor_fwd},
                   {"floor dx", floor_dx},          {"floor dw", floor_dw}};
  double iteration = 1e9;
  for (int round = 0; round < rounds; ++round) {
    double sum = 0;
    for (Timed& item : timed) {
      const auto start = std::chrono::steady_clock::now();
      item.run();
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      item.ms = std::min(item.ms, ms.count());
      if (&item < timed + 7) sum += ms.count();
    }
    iteration = std::min(iteration, sum);
  }
  fmt::print("{}, batch {}, {} threads\n", name, batch, exec.threads().threads());
  for (const Timed& item : timed) fmt::print("  {:22} {:8.2f} ms\n", item.name, item.ms);
  fmt::print("  {:22} {:8.2f} ms, floor of the products {:.2f} ms\n", "iteration", iteration,
             timed[7].ms + timed[8].ms + timed[9].ms);
}

}  // namespace
}  // namespace hlite

int main(int argc, char** argv) {
  int threads = 2, rounds = 15;
  int64_t batch = 2048;
  CLI::App app("Times the ops of DLRM iterations on the CPU compared with their matrix products.",
               "ops_bench");
  app.add_option("threads", threads)
      ->check(hlite::whole_number(1, hlite::kMaxThreads))
      ->capture_default_str();
  app.add_option("batch", batch, "Samples")
      ->check(hlite::whole_number(1, 1 << 20))
      ->capture_default_str();
  app.add_option("rounds", rounds, "The best of so many counts")
      ->check(hlite::whole_number(1, 100000))
      ->capture_default_str();
  return hlite::run_program(app, argc, argv, [&] {
    hlite::ThreadPool pool(threads);
    hlite::Exec exec;
    exec.pool = &pool;
    hlite::model("Criteo Kaggle", exec, batch, rounds, {13, 512, 256, 64, 16}, {368, 512, 256, 1},
                 16);
    hlite::model("MLPerf DLRM", exec, batch, rounds, {13, 512, 256, 128},
                 {480, 1024, 1024, 512, 256, 1}, 128);
    return hlite::kExitDone;
  });
}
