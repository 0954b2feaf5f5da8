// What the compiled plan of a model says: order, overlap, memory.
#include "hugectr_lite/trainer/model/model.h"

#include <algorithm>

#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/trainer/model/compiled_rank.h"

namespace hlite::test {
namespace {

struct Compiled {
  std::unique_ptr<config::TrainConfig> config =
      config::parse_train_config(small_config(), "small.json", {});
  trainer::Model model{*config, 1, 2};
  Compiled() { model.build_plans(); }
  [[nodiscard]] bool overlap(const char* a, const char* b) const {
    const auto& plan = model.train_plan();
    return plan.may_overlap(plan.index_of(a), plan.index_of(b));
  }
};

}  // namespace

TEST_CASE("the plan lets the embedding overlap the bottom network, and orders the rest") {
  const Compiled c;
  CHECK(c.overlap("emb.lookup", "b1.fprop"));
  CHECK(c.overlap("emb.update", "b1.wgrad"));
  CHECK(c.overlap("emb.update", "dense_update"));
  CHECK(!c.overlap("emb.lookup", "inter.fprop"));
  CHECK(!c.overlap("emb.lookup", "emb.update"));
  CHECK(!c.overlap("copy_in", "emb.lookup"));
  CHECK(!c.overlap("inter.bprop", "emb.update"));
}

TEST_CASE("a config that does not train makes a model without training steps and states") {
  const auto config = config::parse_train_config(
      small_config(), "small.json", {R"(optimizer={"type": "Adam", "update_type": "Local",
      "adam_hparam": {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}})"});
  trainer::Model trains(*config, 1, 2);
  trains.build_plans();
  config->trains = false;
  config->optimizer = {};
  trainer::Model predicts(*config, 1, 2);
  predicts.build_plans();
  CHECK(predicts.train_plan().steps().empty());
  CHECK(predicts.eval_plan().steps().size() == trains.eval_plan().steps().size());
  CHECK(trains.dense_optimizer().states().size() == 2);
  CHECK(predicts.dense_optimizer().states().empty());
  CHECK(predicts.layers().embeddings[0]->rule().type == config::OptimizerType::kSgd);
}

TEST_CASE("on several ranks exchanges overlap with the network, and no overlap shares a buffer") {
  for (const char* grouped : {"true", "false"}) {
    const CompiledRank c({std::string("all_reduce={\"grouped\":") + grouped + "}"});
    const auto& plan = c.model->train_plan();
    const auto overlap = [&](const char* a, const char* b) {
      return plan.may_overlap(plan.index_of(a), plan.index_of(b));
    };
    for (const char* forward :
         {"emb.keys_exchange", "emb.rows_exchange", "emb.route", "emb.gather", "emb.pool"})
      CHECK(overlap(forward, "b1.fprop"));
    CHECK(overlap("emb.grads_exchange", "b1.wgrad"));
    CHECK(overlap("emb.grads_exchange", "t1.wgrad"));
    CHECK(overlap("emb.update", "all_reduce"));
    CHECK(overlap("emb.update", "dense_update"));
    CHECK(!overlap("emb.rows_exchange", "inter.fprop"));
    CHECK(!overlap("emb.grads_exchange", "emb.update"));
    CHECK(!overlap("all_reduce", "dense_update"));
    CHECK(!overlap("b1.wgrad", "all_reduce"));
    CHECK(check_unordered(plan) > 20);
  }
}

TEST_CASE("steps that exchange say what they send, on four ranks of two nodes") {
  const CompiledRank c({"all_reduce={\"grouped\":true}"});
  const auto& plan = c.model->train_plan();
  const auto& buffers = plan.buffers();
  for (const plan::Step& step : plan.steps()) {
    INFO(step.name);
    CHECK(step.sends.any() == (step.lane == plan::Lane::kComm));
  }
  const auto sends = [&](const char* step) {
    return plan.steps()[static_cast<size_t>(plan.index_of(step))].sends;
  };
  // Half of the node's sum goes along the rail, there and back.
  const auto& read = plan.steps()[static_cast<size_t>(plan.index_of("all_reduce"))].reads;
  const auto whole = std::find_if(read.begin(), read.end(),
                                  [&](plan::BufferId id) { return buffers.name(id) == "reduced"; });
  REQUIRE(whole != read.end());
  const auto reduced = static_cast<double>(buffers.bytes(*whole));
  CHECK(sends("all_reduce").in_node == reduced);
  CHECK(sends("all_reduce").between == reduced / 2);
  // One other rank in the node, two elsewhere; 3 lookups a sample spread evenly, 4 floats a row,
  // and no more rows than there are: 40, 5 and 300.
  const auto batch = static_cast<double>(c.model->max_batch());
  const double rows = (std::min(batch / 4, 40.0) + std::min(batch / 4, 5.0) + batch / 4) / batch;
  CHECK(sends("emb.keys_exchange").in_node == 8);
  CHECK(sends("emb.keys_exchange").between == 16);
  CHECK(sends("emb.keys_exchange").in_node_per_sample == Approx(4 * rows));
  CHECK(sends("emb.rows_exchange").in_node_per_sample == Approx(16 * rows));
  CHECK(sends("emb.grads_exchange").between_per_sample == Approx(2 * 16 * rows));
}

TEST_CASE("ranks that gather keys state their traffic, and make lists overlapping the network") {
  for (const auto* gpu : {static_cast<const cuda::Backend*>(nullptr), &trainer::absent_gpu()}) {
    const CompiledRank c({"solver.input=broadcast"}, gpu);
    const auto& plan = c.model->train_plan();
    const auto& gather = plan.steps()[static_cast<size_t>(plan.index_of("keys_gather"))];
    // A rank's 8 samples of 3 keys, to one rank in the node and two elsewhere.
    CHECK(gather.lane == plan::Lane::kComm);
    CHECK(gather.sends.in_node == 8 * 3 * 4);
    CHECK(gather.sends.between == 2 * 8 * 3 * 4);
    CHECK_THROWS(plan.index_of("emb.keys_exchange"));
    const int lists = plan.index_of("emb.lists");
    CHECK(plan.may_overlap(lists, plan.index_of("b1.fprop")));
    CHECK(!plan.may_overlap(lists, plan.index_of("keys_gather")));
    CHECK(!plan.may_overlap(lists, plan.index_of("emb.rows_exchange")));
    // Sorting what all ranks look up.
    const auto& route = plan.steps()[static_cast<size_t>(plan.index_of("emb.route"))];
    CHECK(plan.steps()[static_cast<size_t>(lists)].bytes_per_sample == 4 * route.bytes_per_sample);
    CHECK(check_unordered(plan) > 20);
  }
}

TEST_CASE("memory is known before any is taken, table by table") {
  const Compiled c;
  const auto m = trainer::memory_of(c.model);
  CHECK(m.tables == (40 + 5 + 300) * 4 * 4);
  CHECK(m.optimizer_states >= 2 * m.tables + m.dense_parameters);  // Adam's two, momentum's one
  CHECK(m.optimizer_states < 2 * m.tables + m.dense_parameters + 64);
  CHECK(m.batch == 64 * (1 + 8 + 3) * 4);  // the evaluation batch is the larger one
  const auto rows = trainer::layer_sizes(c.model);
  CHECK(rows[1].parameters == 345 * 4);
}

TEST_CASE("weights and states carry the contract's names") {
  Compiled c;
  c.model.allocate();
  std::vector<std::string> names;
  for (const auto& t : trainer::weights_of(c.model)) names.push_back(t.name);
  CHECK(names == std::vector<std::string>{"b1.weight", "b1.bias", "t1.weight", "t1.bias",
                                          "t2.weight", "t2.bias", "emb.table_0", "emb.table_1",
                                          "emb.table_2"});
  names.clear();
  for (const auto& t : trainer::states_of(c.model)) names.push_back(t.name);
  CHECK(names.size() == 6 + 2 * 3);
  CHECK(names[0] == "b1.weight.momentum");
  CHECK(names[6] == "emb.table_0.m");
  CHECK(names[9] == "emb.table_0.v");
}

}  // namespace hlite::test
