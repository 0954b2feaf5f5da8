// RowWiseAdaGrad and RowWiseAdam against their definitions, with gradients that a step of SGD shows.
#include <cmath>

#include "tests/end_to_end/emulated_gpu.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

constexpr double kSteepRate = 0.5, kFirstState = 0.125, kStepEpsilon = 1e-3, kFirstDecay = 0.75,
                 kSecondDecay = 0.875;

// What one iteration leaves, of network and tables alike.
Tensors after_one_step(const SmallRun& run, bool on_gpu, const std::string& optimizer,
                       const std::vector<std::string>& changes) {
  std::vector<std::string> arguments = {"--threads", "2", "--save", run / "saved"};
  arguments = with_changes(
      with_changes(arguments, {"optimizer=" + optimizer, "layers.emb.optimizer=" + optimizer,
                               "solver.max_iter=1", "solver.eval_interval=0"}),
      changes);
  REQUIRE((on_gpu ? train_on_gpu(run, arguments) : run.train(arguments)).code == 0);
  return everything(run / "saved");
}

std::string plain_sgd(double rate) {
  return fmt::format(R"({{"type":"SGD","sgd_hparam":{{"learning_rate":{}}}}})", rate);
}

struct StepWhere {
  const char* ranks;
  bool on_gpu;
  std::vector<std::string> more;
};

// The state of a row that has no gradient is its first one; so are its weights.
void check_step(const StepWhere& where, bool adam) {
  INFO((adam ? "RowWiseAdam, " : "RowWiseAdaGrad, ")
       << where.ranks << (where.on_gpu ? " of a GPU" : "") << ", " << where.more.size());
  const SmallRun run;
  std::vector<std::string> changes = where.more;
  changes.push_back(gpu(where.ranks));
  const std::string of_adam = fmt::format(
      R"({{"type":"RowWiseAdam","update_type":"Global","row_wise_adam_hparam":)"
      R"({{"learning_rate":{},"beta1":{},"beta2":{},"epsilon":{},"corrected_epsilon":true}}}})",
      kSteepRate, kFirstDecay, kSecondDecay, kStepEpsilon);
  const std::string of_ada_grad =
      fmt::format(R"({{"type":"RowWiseAdaGrad","row_wise_adagrad_hparam":)"
                  R"({{"learning_rate":{},"initial_accumulator":{},"epsilon":{}}}}})",
                  kSteepRate, kFirstState, kStepEpsilon);
  const Tensors before = after_one_step(run, where.on_gpu, plain_sgd(0), changes),
                moved = after_one_step(run, where.on_gpu, plain_sgd(kSteepRate), changes),
                found = after_one_step(run, where.on_gpu, adam ? of_adam : of_ada_grad, changes);
  REQUIRE(found.size() == (adam ? 3 : 2) * before.size());
  const double first = adam ? 0 : kFirstState, share = adam ? 1 - kSecondDecay : 1;
  size_t still = 0;
  for (const auto& [name, w] : before) {
    INFO(name);
    const size_t width = name.starts_with("emb.table_") ? 4 : 1;  // the network's have no rows
    const auto& state = found.at(name + (adam ? ".v" : ".accumulator"));
    REQUIRE(state.size() == w.size() / width);
    std::vector<double> weights, states, moments;
    for (size_t row = 0; row < state.size(); ++row) {
      const auto gradient = [&](size_t j) {
        const size_t i = row * width + j;
        return (static_cast<double>(w[i]) - static_cast<double>(moved.at(name)[i])) / kSteepRate;
      };
      double squares = 0;
      for (size_t j = 0; j < width; ++j) squares += gradient(j) * gradient(j);
      states.push_back(first + share * squares / static_cast<double>(width));
      // The first step's moments without bias are the gradient and the mean of its square.
      const double root = std::sqrt(states.back() / share);
      for (size_t j = 0; j < width; ++j) {
        moments.push_back((1 - kFirstDecay) * gradient(j));
        weights.push_back(w[row * width + j] - kSteepRate * gradient(j) / (root + kStepEpsilon));
      }
      if (width > 1 && squares == 0 && state[row] == static_cast<float>(first)) ++still;
    }
    // Gradients come of differences of floats, and Adam divides small ones by themselves.
    const Tolerance tolerance{.absolute = adam ? 2e-4 : 1e-6, .relative = 1e-5};
    check_close(found.at(name), weights, tolerance, "weights");
    check_close(state, states, {.absolute = 1e-6, .relative = 1e-5}, "states");
    if (adam)
      check_close(found.at(name + ".m"), moments, {.absolute = 1e-6, .relative = 1e-5}, "moments");
  }
  CHECK(still > 200);  // of 345 rows, of which a batch of 32 names 69 at most
}

}  // namespace

TEST_CASE(
    "a step of a row-wise rule is its definition, on ranks, with replicated rows and on a GPU") {
  const bool adam = GENERATE(false, true);
  const std::string clips = "solver.gradient_clip_norm=1000";  // whole gradients, none of them cut
  const std::string copies =
      "layers.emb.sparse_embedding_hparam.communication_type=IB_NVLink_Hierarchical";
  check_step({"[[0]]", false, {}}, adam);
  check_step({"[[0]]", false, {clips}}, adam);
  check_step({"[[0,1]]", false, {}}, adam);
  check_step({"[[0,1],[2,3]]", false, {copies}}, adam);
  check_step({"[[0,1],[2,3]]", false, {copies, clips}}, adam);
  check_step({"[[0]]", true, {}}, adam);
  check_step({"[[0]]", true, {clips}}, adam);
}

}  // namespace hlite::test
