// The plan of one of several ranks without the others: enough to inspect it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "tests/support/catch.h"
#include "tests/support/small_config.h"

namespace hlite::test {

// Rank 0 of four, or as `changes` say. `copies`: every fifth category is on all ranks.
struct CompiledRank {
  std::unique_ptr<config::TrainConfig> config;
  std::unique_ptr<trainer::Model> model;

  explicit CompiledRank(const std::vector<std::string>& changes, const cuda::Backend* gpu = nullptr)
      : CompiledRank(of_text(small_config(), changes), gpu, /*copies=*/false) {}
  CompiledRank(std::unique_ptr<config::TrainConfig> of, const cuda::Backend* gpu, bool copies,
               bool one_process = false)
      : config(std::move(of)) {
    const auto topology = trainer::topology_of(config->solver);
    trainer::ModelRanks ranks;
    ranks.context.topology = std::make_shared<const comm::Topology>(topology);
    ranks.placements = trainer::make_placements(*config, topology, false);
    if (copies)
      for (trainer::LayerPlacement& p : ranks.placements)
        p.placement = with_replicated_rows(*p.placement);
    ranks.one_process = one_process;
    model = std::make_unique<trainer::Model>(*config, 1, 2, std::move(ranks), gpu);
    model->build_plans();
  }
  static std::unique_ptr<config::TrainConfig> of_text(const std::string& text,
                                                      const std::vector<std::string>& changes) {
    std::vector<std::string> all = {"solver.gpu=[[0,1],[2,3]]"};
    all.insert(all.end(), changes.begin(), changes.end());
    return config::parse_train_config(text, "small.json", all);
  }

 private:
  static std::shared_ptr<const embedding::RowPlacement> with_replicated_rows(
      const embedding::RowPlacement& placement) {
    const embedding::SlotLayout& layout = placement.layout();
    std::vector<uint32_t> counts(static_cast<size_t>(layout.total_rows), 1);
    for (size_t c = 0; c < counts.size(); c += 5) counts[c] = 10;
    return std::make_shared<embedding::RowPlacement>(embedding::RowPlacement::by_category(
        layout, embedding::CategoryModel(layout, placement.ranks(),
                                         embedding::FrequencyStatistics::of_counts(counts), 5,
                                         layout.total_rows)));
  }
};

// Whether a buffer of one list shares bytes with one of the other.
inline bool share(const plan::Buffers& buffers, const std::vector<plan::BufferId>& a,
                  const std::vector<plan::BufferId>& b) {
  for (const auto x : a)
    for (const auto y : b)
      if (buffers.overlap(x, y)) return true;
  return false;
}

// Pairs of steps that a plan leaves unordered, on different lanes, and those of them of which one
// writes, by what `steps` say of themselves, what the other touches.
struct Unordered {
  int pairs = 0;
  std::vector<std::string> conflicts;
};
inline Unordered unordered(const plan::Plan& plan, std::span<const plan::Step> steps) {
  const auto& buffers = plan.buffers();
  Unordered found;
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t j = i + 1; j < steps.size(); ++j) {
      if (!plan.may_overlap(static_cast<int>(i), static_cast<int>(j))) continue;
      ++found.pairs;
      if (share(buffers, steps[i].writes, steps[j].writes) ||
          share(buffers, steps[i].writes, steps[j].reads) ||
          share(buffers, steps[i].reads, steps[j].writes))
        found.conflicts.push_back(steps[i].name + " and " + steps[j].name);
    }
  return found;
}
// How many such pairs there are; none shares what either writes.
inline int check_unordered(const plan::Plan& plan) {
  const Unordered found = unordered(plan, plan.steps());
  CHECK(found.conflicts == std::vector<std::string>());
  return found.pairs;
}

}  // namespace hlite::test
