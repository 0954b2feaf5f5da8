#include "hugectr_lite/trainer/model/gradient_clip.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/ops/gradient_norm.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "tests/support/catch.h"
#include "tests/support/memory_source.h"
#include "tests/trainer/model/compiled_rank.h"

namespace hlite::test {
namespace {

constexpr int64_t kSamples = 32, kDenseWidth = 8;
const std::vector<int64_t> kSlotRows = {40, 5, 300};

// The factor of the tables' gradients on each rank after an iteration, in which the ranks share one
// batch.
std::vector<double> clip_factors(const std::vector<std::string>& changes) {
  const auto config = config::parse_train_config(small_config(), "small.json", changes);
  const auto topology =
      std::make_shared<const comm::Topology>(trainer::topology_of(config->solver));
  const auto placements = trainer::make_placements(*config, *topology, false);
  std::vector<double> factors(static_cast<size_t>(topology->ranks()));
  comm::run_ranks(*topology, [&](comm::Communicator& world) {
    ThreadPool pool(1);
    const Exec exec{.device = Device::kCpu, .pool = &pool};
    trainer::Model model(*config, 1, 1,
                         {.context = {world.rank(), topology, &world}, .placements = placements});
    model.compile(exec);
    model.allocate();
    trainer::initialize(model);
    MemorySource source(random_batches(1, kSamples, 2, kDenseWidth, kSlotRows, 1));
    plan::StepContext part{.batch = kSamples / topology->ranks(),
                           .input = trainer::input_of(source.next()),
                           .global_batch = kSamples};
    part.first_row = world.rank() * part.batch;
    part.input.labels += part.first_row;
    part.input.dense += part.first_row * kDenseWidth;
    part.input.keys += part.first_row * std::ssize(kSlotRows);
    model.train(part);
    const plan::Plan& plan = model.train_plan();
    const plan::Step& clip = plan.steps()[static_cast<size_t>(plan.index_of("gradient_clip"))];
    factors[static_cast<size_t>(world.rank())] =
        model.buffers().value<ops::ClipFactors>(clip.writes[0]).unscaled;
  });
  return factors;
}

}  // namespace

TEST_CASE("the norm of all gradients is the same on any ranks, the optimizer sharded or not",
          "[threads]") {
  const std::string norm = "solver.gradient_clip_norm=0.01";
  const double one = clip_factors({norm}).at(0);
  CHECK(one > 0.001);
  CHECK(one < 0.5);
  for (const char* ranks : {"[[0,1]]", "[[0,1],[2,3]]"})
    for (const char* sharded : {"false", "true"}) {
      INFO(ranks << ", sharded " << sharded);
      const auto factors = clip_factors({norm, std::string("solver.gpu=") + ranks,
                                         std::string("solver.shard_optimizer=") + sharded});
      CHECK(factors.size() == (std::string(ranks) == "[[0,1]]" ? 2 : 4));
      for (const double factor : factors) {
        CHECK(factor == Approx(one).epsilon(1e-5));
        CHECK(factor == factors[0]);  // or the ranks' weights would part
      }
    }
}

}  // namespace hlite::test
