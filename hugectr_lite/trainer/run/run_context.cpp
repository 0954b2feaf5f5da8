#include "hugectr_lite/trainer/run/run_context.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"

namespace hlite::trainer {

bool RunContext::agree_to_stop() {
  float requests = InterruptGuard::requested() ? 1 : 0;
  if (ranks.ranks() > 1) ranks.world->all_reduce(exec(), {&requests, 1});
  return requests > 0;
}

void RunContext::expect_data() const {
  if (options.without_data)
    raise<ConfigError>(
        "{}: expected data, found a trainer that was made without (its samples come "
        "by step(batch))",
        config.data.name);
}

}  // namespace hlite::trainer
