// The minimal config, parsed, with changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/config/broken_config.h"

namespace hlite::config {

inline std::unique_ptr<TrainConfig> minimal(const std::vector<std::string>& overrides = {}) {
  return parse_train_config(test::kMinimalConfig, "minimal.json", overrides);
}

}  // namespace hlite::config
