// Checks the plan of one of eight GPUs: which steps overlap, and that steps that overlap share no
// buffer.
#include <functional>
#include <map>

#include "tests/support/catch.h"
#include "tests/trainer/model/compiled_rank.h"

namespace hlite::test {
namespace {

using plan::BufferId;
using plan::Lane;
using plan::Plan;
using plan::Step;

const std::string kEight = "solver.gpu=[[0,1,2,3,4,5,6,7]]";

CompiledRank eight_gpus(const std::string& text, std::vector<std::string> changes,
                        bool replicated = false) {
  changes.insert(changes.begin(), kEight);
  return {CompiledRank::of_text(text, changes), &trainer::absent_gpu(), replicated};
}
CompiledRank eight_gpus_of_file(const char* path, const std::vector<std::string>& changes) {
  std::vector<std::string> all = {kEight};
  all.insert(all.end(), changes.begin(), changes.end());
  return {config::load_train_config(path, all), &trainer::absent_gpu(), false};
}

// The order of a plan's steps, given that every lane runs its steps one after the other.
class StepOrder {
 public:
  explicit StepOrder(const Plan& plan) : plan_(plan) {
    const auto steps = plan.steps();
    before_.assign(steps.size(), std::vector<bool>(steps.size(), false));
    std::map<Lane, size_t> last;
    for (size_t b = 0; b < steps.size(); ++b) {
      const auto comes_after = [&](size_t a) {
        before_[b][a] = true;
        for (size_t c = 0; c < a; ++c)
          if (before_[a][c]) before_[b][c] = true;
      };
      for (const int a : steps[b].after) comes_after(static_cast<size_t>(a));
      if (const auto found = last.find(steps[b].lane); found != last.end())
        comes_after(found->second);
      last[steps[b].lane] = b;
    }
  }
  [[nodiscard]] bool overlap(const std::string& a, const std::string& b) const {
    const auto x = static_cast<size_t>(plan_.index_of(a)),
               y = static_cast<size_t>(plan_.index_of(b));
    return x != y && !before_[x][y] && !before_[y][x];
  }

 private:
  const Plan& plan_;
  std::vector<std::vector<bool>> before_;
};

// Names of steps that differ between the models.
struct Names {
  std::string embedding, bottom_forward, bottom_backward, top_forward;
};
const Names kSmall = {"emb", "b1.fprop", "b1.wgrad", "t1.fprop"};

void check_overlaps(const Plan& plan, const Names& names, const std::string& sum) {
  const StepOrder order(plan);
  const auto overlaps = [&](const std::string& step, const std::string& other) {
    INFO(step << " overlaps " << other);
    CHECK(order.overlap(names.embedding + step, other));
  };
  // Where keys do not travel an iteration ahead, their exchange overlaps the bottom network.
  for (const char* forward : {".route", ".keys_exchange", ".gather", ".rows_exchange", ".pool"})
    overlaps(forward, names.bottom_forward);
  CHECK(order.overlap("notice", names.bottom_forward));
  overlaps(".sort", names.top_forward);
  overlaps(".reduce", names.bottom_backward);
  overlaps(".grads_exchange", names.bottom_backward);
  overlaps(".update", sum);
  overlaps(".update", "dense_update");
  // These are independent but do not overlap: all exchanges of a GPU are on one lane, where the one
  // of row gradients comes first, then the sum of dense gradients, which dense_update waits for.
  const auto index = [&](const std::string& name) { return plan.index_of(name); };
  CHECK(plan.may_overlap(index(names.embedding + ".grads_exchange"), index("dense_update")));
  CHECK(!order.overlap(names.embedding + ".grads_exchange", "dense_update"));
  CHECK(!order.overlap(names.embedding + ".grads_exchange", sum));
  CHECK(!order.overlap(sum, "dense_update"));
}

// Only steps of lane copy write inputs, because they fill the other set of input buffers while an
// iteration runs.
void check_copy_in(const Plan& plan) {
  const auto& buffers = plan.buffers();
  const auto is_input = [&](BufferId id) { return buffers.kind(id) == plan::BufferKind::kInput; };
  for (const Step& step : plan.steps()) {
    INFO(step.name);
    if (step.lane == Lane::kCopy) {
      CHECK(step.reads.empty());
      CHECK(std::all_of(step.writes.begin(), step.writes.end(), is_input));
      CHECK(!step.writes.empty());
    } else {
      CHECK(std::none_of(step.writes.begin(), step.writes.end(), is_input));
    }
  }
}

struct Variant {
  const char* name;
  std::vector<std::string> changes;
  bool replicated = false;
};
const std::string kAt = "layers.emb.sparse_embedding_hparam.";
const std::string kGlobal =
    R"({"type":"AdaGrad","update_type":"Global","adagrad_hparam":{"learning_rate":0.05,)"
    R"("initial_accumulator":0.1}})";
const std::string kGrouped = "all_reduce={\"grouped\":true}",
                  kApart = "all_reduce={\"grouped\":false}";

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"unchanged", {}},
      {"whole tables", {"layers.emb.type=LocalizedSlotSparseEmbeddingOneHot"}},
      {"replicated, summed together", {kGrouped}, true},
      {"replicated, summed apart", {kApart}, true},
      {"narrow wire", {kApart, "solver.wire_precision=bf16"}, true},
      {"16 bits, scaled loss", {kApart, "solver.mixed_precision=1024"}, true},
      {"sharded optimizer", {kApart, "solver.shard_optimizer=true"}, true},
      {"sharded optimizer, grouped, narrow wire",
       {kGrouped, "solver.shard_optimizer=true", "solver.wire_precision=bf16"},
       true},
      {"penalty and clipping",
       {kAt + "regularizer=L2", kAt + "lambda=0.001", "optimizer=" + kGlobal,
        "layers.emb.optimizer=" + kGlobal, "solver.gradient_clip_norm=0.05"},
       true}};
  return all;
}

}  // namespace

TEST_CASE("on eight GPUs the expected steps overlap, and steps that overlap share no buffer") {
  for (const Variant& v : variants()) {
    INFO(v.name);
    const CompiledRank c = eight_gpus(small_config(), v.changes, v.replicated);
    const Plan& plan = c.model->train_plan();
    const bool sharded = c.config->solver.shard_optimizer;
    CHECK(check_unordered(plan) > 40);
    CHECK(check_unordered(c.model->eval_plan()) > 5);
    check_copy_in(plan);
    check_copy_in(c.model->eval_plan());
    if (c.config->solver.gradient_clip_norm > 0) continue;  // the norm is that of all gradients
    check_overlaps(plan, kSmall, sharded ? "reduce_scatter" : "all_reduce");
    if (!v.replicated) continue;
    const StepOrder order(plan);
    CHECK(order.overlap("emb.update_replicated", "dense_update"));
    if (c.config->all_reduce.grouped) continue;
    CHECK(order.overlap("emb.replicated_gradients.all_reduce", "emb.update"));
    if (!sharded) CHECK(order.overlap("emb.replicated_gradients.all_reduce", "dense_update"));
  }
}

TEST_CASE("steps also overlap with batch norm over ranks, in DLRM-DCNv2 and in MLPerf's DLRM") {
  const CompiledRank statistics = eight_gpus(small_config_with_batch_norm(), {}, true);
  CHECK(check_unordered(statistics.model->train_plan()) > 40);
  check_copy_in(statistics.model->train_plan());
  for (const char* file : {"/mlperf_dcnv2_1x8.json", "/mlperf_dgx_a100.json"}) {
    INFO(file);
    const CompiledRank c = eight_gpus_of_file((HLITE_CONFIGS + std::string(file)).c_str(), {});
    const Plan& plan = c.model->train_plan();
    CHECK(check_unordered(plan) > 100);
    check_copy_in(plan);
    const std::string emb = c.model->layers().embeddings[0]->name();
    const bool dlrm = std::string(file).find("dcn") == std::string::npos;
    check_overlaps(plan,
                   {emb, dlrm ? "bottom1.fprop" : "bottom.0.fprop",
                    dlrm ? "bottom1.wgrad" : "bottom.0.wgrad", dlrm ? "top1.fprop" : "top.0.fprop"},
                   "all_reduce");
  }
}

// What they leave for the rest is on two sides.
TEST_CASE("on eight GPUs of one process what needs keys alone is a plan of its own") {
  const auto names = [](const Plan& plan) {
    std::vector<std::string> all;
    for (const Step& step : plan.steps()) all.push_back(step.name);
    return all;
  };
  const auto compiled = [](std::vector<std::string> changes, bool one_process) {
    changes.insert(changes.begin(), kEight);
    return CompiledRank(CompiledRank::of_text(small_config(), changes), &trainer::absent_gpu(),
                        /*copies=*/true, one_process);
  };
  for (const bool gathers : {false, true}) {
    const std::string input = gathers ? "solver.input=broadcast" : "solver.input=own";
    const CompiledRank together = compiled({input}, false), apart = compiled({input}, true);
    CHECK(!together.model->keys_ahead());
    CHECK(together.model->keys_plan().steps().empty());
    REQUIRE(apart.model->keys_ahead());
    const Plan &keys = apart.model->keys_plan(), &rest = apart.model->train_plan();
    CHECK(names(keys) ==
          (gathers ? std::vector<std::string>{"copy_in", "keys_gather", "emb.route", "emb.lists",
                                              "count_routed", "notice"}
                   : std::vector<std::string>{"copy_in", "emb.route", "emb.keys_exchange",
                                              "count_routed", "notice"}));
    std::vector<std::string> all = names(keys), of_rest = names(rest),
                             expected = names(together.model->train_plan());
    std::erase(all, "count_routed");
    all.insert(all.end(), of_rest.begin(), of_rest.end());
    std::sort(all.begin(), all.end());
    std::sort(expected.begin(), expected.end());
    CHECK(all == expected);
    check_unordered(keys);
    check_unordered(rest);
    check_copy_in(keys);
    const auto& buffers = rest.buffers();
    for (const Step& made : keys.steps())
      for (const BufferId id : made.writes)
        for (const Step& step : rest.steps())
          if (share(buffers, {id}, step.reads) || share(buffers, {id}, step.writes)) {
            INFO(made.name << " and " << step.name << ": " << buffers.name(id));
            CHECK((buffers.kind(id) == plan::BufferKind::kInput ||
                   buffers.kind(id) == plan::BufferKind::kAhead));
          }
  }
  CHECK(!compiled({"solver.cuda_graph=false"}, true).model->keys_ahead());
}

// Removes every declared read and write in turn. check_unordered() must then find a conflict, unless
// other dependencies still order all steps that share the buffer.
TEST_CASE("a step that does not declare a read or a write is found, as it overlaps another user") {
  const CompiledRank c = eight_gpus(small_config(), {kApart}, true);
  const Plan& whole = c.model->train_plan();
  const auto steps = whole.steps();
  const auto& buffers = whole.buffers();
  const auto races = [&](const Plan& plan) {
    const StepOrder order(plan);
    for (const Step& a : steps)
      for (const Step& b : steps)
        if ((share(buffers, a.writes, b.reads) || share(buffers, a.writes, b.writes)) &&
            order.overlap(a.name, b.name))
          return true;
    return false;
  };
  CHECK(!races(whole));
  int found = 0, implied = 0;
  const auto try_without = [&](size_t missing, bool write, size_t at) {
    Plan plan(whole.buffers());
    for (size_t i = 0; i < steps.size(); ++i) {
      Step step{.name = steps[i].name,
                .lane = steps[i].lane,
                .reads = steps[i].reads,
                .writes = steps[i].writes};
      auto& list = write ? step.writes : step.reads;
      if (i == missing) list.erase(list.begin() + static_cast<int64_t>(at));
      plan.add(std::move(step));
    }
    try {
      plan.finalize();
    } catch (const Error&) {  // a later step reads what nothing has written
      ++found;
      return;
    }
    INFO(steps[missing].name << (write ? " does not write " : " does not read ")
                             << whole.buffers().name(
                                    (write ? steps[missing].writes : steps[missing].reads)[at]));
    const bool conflicts = !unordered(plan, steps).conflicts.empty();
    if (races(plan)) CHECK(conflicts);
    ++(conflicts ? found : implied);
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t k = 0; k < steps[i].reads.size(); ++k) try_without(i, false, k);
    for (size_t k = 0; k < steps[i].writes.size(); ++k) try_without(i, true, k);
  }
  CHECK(found > 40);
  CHECK(implied > 0);
}

}  // namespace hlite::test
