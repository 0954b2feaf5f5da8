// What ranks are going to send, from placement and statistics: nothing is trained.
#include "hugectr_lite/trainer/estimate/estimate_report.h"
#include "tests/support/catch.h"

namespace hlite::trainer {
namespace {

struct Planned {
  double keys = 0, rows = 0, grads = 0, sums = 0;  // bytes that a rank sends
  [[nodiscard]] double all() const { return keys + rows + grads + sums; }
};

// Between nodes, or on all links.
Planned planned(const std::string& config, const std::string& system, bool between,
                const std::vector<std::string>& changes) {
  const System s = parse_system(system);
  const auto parsed = config::load_train_config(config, overrides_for(s, changes));
  Planned p;
  for (const auto& step :
       estimate_iteration(*parsed, s.machine, {.keys = AssumedKeys::kCriteo}).steps) {
    const double bytes = step.work.between + (between ? 0 : step.work.in_node);
    const auto ends = [&](const char* end) { return step.name.ends_with(end); };
    if (ends(".keys_exchange")) p.keys += bytes;
    if (ends(".rows_exchange")) p.rows += bytes;
    if (ends(".grads_exchange")) p.grads += bytes;
    if (ends("replicated_gradients.all_reduce")) p.sums += bytes;
  }
  return p;
}

constexpr const char* kKaggle = HLITE_CONFIGS "/kaggle_dlrm.json";

}  // namespace

// Keys as skewed as Criteo's, 4 nodes of 2 ranks; in float ranks of the CPU were seen to send 16.9
// %.
TEST_CASE(
    "on a narrow wire nodes send each other a tenth of what a plain embedding does, or less") {
  constexpr double kBatch = 55296, kSlots = 26, kWidth = 16, kNodes = 4, kRanks = 8;
  const double plain = 2 * kBatch * kSlots * kWidth * 4 * (1 - 1 / kNodes);
  const auto share = [&](const char* wire) {
    return planned(kKaggle, "4x2 dgx_a100", true,
                   {"solver.batchsize=55296", std::string("solver.wire_precision=") + wire,
                    "layers.embedding.sparse_embedding_hparam.communication_type="
                    "IB_NVLink_Hierarchical"})
               .all() *
           kRanks / plain;
  };
  CHECK(share("fp32") == Approx(0.169).epsilon(0.05));
  CHECK(share("bf16") <= 0.10);
  CHECK(share("bf16") > 0.5 * share("fp32"));  // keys are as wide as ever
}

TEST_CASE("a narrow wire halves rows, gradients and sums of copies, and leaves keys alone") {
  for (const char* system : {"1x8 dgx_a100", "2x4 dgx_a100"}) {
    const auto of = [&](const char* wire) {
      return planned(kKaggle, system, false,
                     {"solver.batchsize=4096", std::string("solver.wire_precision=") + wire,
                      "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink"});
    };
    const Planned wide = of("fp32"), narrow = of("bf16");
    CHECK(narrow.keys == wide.keys);
    CHECK(narrow.rows == Approx(wide.rows / 2));
    CHECK(narrow.grads == Approx(wide.grads / 2));
    CHECK(narrow.sums == Approx(wide.sums / 2));
    CHECK(wide.rows > 0);
    CHECK(wide.sums > 0);
  }
}

}  // namespace hlite::trainer
