#include "hugectr_lite/trainer/estimate/iteration_estimate.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"

namespace hlite::trainer {
namespace {

// The cost of a step, by what it goes to.
struct Parts {
  std::array<double, kBounds> seconds = {};
  [[nodiscard]] double& of(Bound b) { return seconds[static_cast<size_t>(b)]; }
};

class CostModel {
 public:
  CostModel(const config::TrainConfig& config, const Machine& machine, FloatType type,
            int wire_bytes)
      : machine_(machine),
        nodes_(static_cast<int>(config.solver.gpu.size())),
        ranks_of_node_(static_cast<int>(config.solver.max_ranks_of_a_node())) {
    flops_ = type != FloatType::kFloat           ? machine.flops_16
             : config.solver.enable_tf32_compute ? machine.flops_tf32
                                                 : machine.flops_fp32;
    // Sends of the plan are those of the config's wire.
    const auto planned = static_cast<int>(float_type_bytes(config.solver.wire_precision)),
               own = machine.gpu ? static_cast<int>(float_type_bytes(type)) : 4;
    wire_share_ = static_cast<double>(wire_bytes > 0 ? wire_bytes : std::min(planned, own)) /
                  static_cast<double>(planned);
    require(ranks_of_node_ > 1, machine.in_node, "in_node", "several ranks a node");
    require(nodes_ > 1, machine.between, "between", "several nodes");
  }

  // A bus carries both ways at a time.
  [[nodiscard]] double tier_seconds(const EstimatedStep::TierWork& work) const {
    return work.disk ? work.read / machine_.disk_read_bytes_per_s +
                           work.written / machine_.disk_written_bytes_per_s
                     : std::max(work.read, work.written) / machine_.host_bytes_per_s;
  }

  [[nodiscard]] Parts parts(const EstimatedStep& step) const {
    Parts p;
    p.of(Bound::kSteps) = machine_.step_seconds;
    if (step.lane == plan::Lane::kComm) return exchange(step, p);
    if (step.lane == plan::Lane::kCopy && machine_.gpu) {
      p.of(Bound::kSteps) = 0;
      p.of(Bound::kHostCopy) = step.work.bytes / machine_.host_bytes_per_s;
      return p;
    }
    p.of(Bound::kTiers) = step.ahead ? 0 : tier_seconds(step.tier);
    const double products = step.work.flops / flops_,
                 memory = step.work.bytes / machine_.memory_bytes_per_s;
    p.of(products > memory ? Bound::kProducts : Bound::kMemory) = std::max(products, memory);
    return p;
  }

 private:
  void require(bool needed, const MachineLink& link, const char* key, const char* why) const {
    if (needed && link.bytes_per_s <= 0)
      raise<ConfigError>("--estimate: machine {}: {}: expected the link of {}, found none",
                         machine_.name, key, why);
  }

  // Keys are always 4 bytes, and weights of their type; gradients and rows may be narrower.
  [[nodiscard]] Parts exchange(const EstimatedStep& step, Parts p) const {
    const bool fixed = step.name.ends_with(".keys_exchange") || step.name == "keys_gather" ||
                       step.name == "gather_weights";
    const double narrowed = fixed ? 1.0 : wire_share_;
    const ExchangeSeconds seconds =
        exchange_seconds(machine_, {.nodes = nodes_,
                                    .ranks_of_node = ranks_of_node_,
                                    .in_node = narrowed * step.work.in_node,
                                    .between = narrowed * step.work.between,
                                    .turns = step.name.ends_with("all_reduce") ? 2 : 1});
    p.of(Bound::kInNode) = seconds.in_node;
    p.of(Bound::kBetween) = seconds.between;
    return p;
  }

  const Machine& machine_;
  const int nodes_, ranks_of_node_;
  double flops_ = 0, wire_share_ = 1;
};

// Seconds that the steps of the critical path add to it, by what they go to: a step that overlapped
// the one that held it up adds only its end.
std::array<double, kBounds> path_of(const plan::Schedule& schedule,
                                    const std::vector<Parts>& parts) {
  std::array<double, kBounds> sum = {};
  double before = 0;
  for (const int i : schedule.critical_path()) {
    const auto& step = parts[static_cast<size_t>(i)].seconds;
    const double end = schedule.steps[static_cast<size_t>(i)].end, added = end - before;
    double whole = 0;
    for (const double s : step) whole += s;
    if (whole > 0)
      for (size_t b = 0; b < step.size(); ++b) sum[b] += added * step[b] / whole;
    before = end;
  }
  return sum;
}

}  // namespace

Bound IterationEstimate::bound() const {
  return static_cast<Bound>(std::max_element(on_path.begin(), on_path.end()) - on_path.begin());
}

IterationEstimate estimate_iteration(const config::TrainConfig& config, const Machine& machine,
                                     const EstimateSetup& setup) {
  const comm::Topology topology = topology_of(config.solver);
  ExpectedPlacements expected = expect_placements(config, topology, setup.keys, setup.replicate);
  IterationEstimate result{.batch = config.solver.batchsize,
                           .ranks = topology.ranks(),
                           .steps = {},
                           .keys = expected.source,
                           .placement = {},
                           .tiers = {}};
  for (const LayerPlacement& p : expected.placements)
    if (!p.explanation.empty()) result.placement.push_back(p.explanation);
  // On several GPUs the tables' steps are those of several ranks.
  const cuda::Backend* const gpu = machine.gpu && topology.ranks() == 1 ? &absent_gpu() : nullptr;
  Model model(config, 1, 1,
              {.context = {.topology = std::make_shared<comm::Topology>(topology)},
               .placements = std::move(expected.placements),
               .tiers = {.in_memory = setup.all_in_memory},
               .steps_of_gpu = machine.gpu},
              gpu);
  for (const LayerTiers& tiers : tiers_of(model))
    for (std::string& line : tier_texts(tiers)) result.tiers.push_back(std::move(line));
  if (const auto& wanted = config.solver.embedding_memory; wanted && wanted->automatic)
    result.tiers.emplace_back(
        "embedding_memory \"auto\" is priced as if all rows were in memory; host_gb or gpu_gb says "
        "how many are");
  model.build_plans();
  const plan::Plan& plan = model.train_plan();
  const plan::WorkSize size = model.train_size();
  const CostModel costs(config, machine, model.type(), setup.wire_bytes);
  std::vector<Parts> parts;
  std::vector<plan::StepCost> step_costs;
  for (const plan::Step& step : plan.steps()) {
    const auto batch = static_cast<double>(size.batch);
    EstimatedStep e{.name = step.name,
                    .lane = step.lane,
                    .work = work_of(plan, step, size),
                    .tier = {.read = step.tier.read_per_sample * batch,
                             .written = step.tier.written_per_sample * batch,
                             .disk = step.tier.disk},
                    .ahead = step.tier.ahead};
    if (e.ahead) result.tier_seconds += costs.tier_seconds(e.tier);
    Parts p = costs.parts(e);
    for (const double s : p.seconds) e.seconds += s;
    plan::StepCost cost{.wait = p.of(Bound::kSteps) + p.of(Bound::kInNode) + p.of(Bound::kBetween) +
                                p.of(Bound::kTiers),
                        .device = p.of(Bound::kProducts) + p.of(Bound::kMemory)};
    if (step.lane == plan::Lane::kCopy) {
      if (step.name == "copy_in")
        result.sample_bytes = e.work.bytes / static_cast<double>(size.batch);
      result.host_copy_seconds += p.of(Bound::kHostCopy);
    }
    parts.push_back(p);
    step_costs.push_back(cost);
    result.steps.push_back(std::move(e));
  }
  const plan::Schedule schedule =
      plan::schedule(plan, step_costs, machine.gpu || config.solver.enable_overlap);
  for (size_t i = 0; i < result.steps.size(); ++i) result.steps[i].end = schedule.steps[i].end;
  for (const int i : schedule.critical_path()) result.steps[static_cast<size_t>(i)].critical = true;
  result.on_path = path_of(schedule, parts);
  result.seconds = schedule.seconds;
  if (result.host_copy_seconds > result.seconds) {
    result.on_path = {};
    result.on_path[static_cast<size_t>(Bound::kHostCopy)] = result.host_copy_seconds;
    result.seconds = result.host_copy_seconds;
  }
  if (result.tier_seconds > result.seconds) {
    result.on_path = {};
    result.on_path[static_cast<size_t>(Bound::kTiers)] = result.tier_seconds;
    result.seconds = result.tier_seconds;
  }
  return result;
}

}  // namespace hlite::trainer
