// A small valid config and a way to write down broken ones as rows of a table: the edit that breaks
// it, and what the message must say. One key a line, so that the line in a message is checked too.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"

namespace hlite::test {

constexpr const char* kMinimalConfig = R"({
  "solver": {
    "seed": 7,
    "lr_policy": "fixed",
    "display": 10,
    "max_iter": 200,
    "gpu": [0],
    "batchsize": 256,
    "batchsize_eval": 512,
    "eval_batches": 4,
    "eval_interval": 50,
    "eval_metrics": ["AUC:0.99", "AverageLoss"],
    "snapshot": 1000000,
    "snapshot_prefix": "./t_",
    "enable_overlap": true
  },
  "optimizer": {
    "type": "SGD",
    "update_type": "Local",
    "sgd_hparam": {
      "learning_rate": 0.5,
      "warmup_steps": 10,
      "decay_start": 100,
      "decay_steps": 90,
      "decay_power": 2.0,
      "end_lr": 0.125,
      "atomic_update": true
    }
  },
  "all_reduce": {
    "algo": "NCCL",
    "grouped": true
  },
  "layers": [
    {
      "name": "data",
      "type": "Data",
      "format": "RawAsync",
      "source": "train.bin",
      "eval_source": "val.bin",
      "check": "None",
      "num_samples": 51200,
      "eval_num_samples": 1024,
      "cache_eval_data": 4,
      "slot_size_array": [100, 50, 7],
      "label": {
        "top": "y",
        "label_dim": 1
      },
      "dense": {
        "top": "x",
        "dense_dim": 5,
        "aligned": "Auto"
      },
      "sparse": [
        {
          "top": "k",
          "type": "DistributedSlot",
          "max_feature_num_per_sample": 3,
          "max_nnz": 1,
          "slot_num": 3
        }
      ],
      "async_param": {
        "num_threads": 2,
        "num_batches_per_thread": 4,
        "io_block_size": 4096,
        "io_depth": 2,
        "io_alignment": 512,
        "shuffle": true
      }
    },
    {
      "name": "fc",
      "type": "InnerProduct",
      "bottom": "x",
      "top": "z",
      "fc_param": {
        "num_output": 1
      }
    },
    {
      "name": "loss",
      "type": "BinaryCrossEntropyLoss",
      "bottom": ["z", "y"],
      "top": "loss"
    }
  ]
}
)";

struct BrokenConfig {
  const char* name;
  const char* from;  // text of the valid config that `to` replaces; "--set": `to` is PATH=VALUE
  const char* to;
  const char* path;               // JSON path that the message names
  std::vector<std::string> says;  // further fragments: expected and found
  const char* on_line = nullptr;  // text in the line that the message names; default: `to` itself
};

// The message of the ConfigError that `load(text, overrides)` throws on a row, checked to have a
// line that begins with the file and line (or the --set) and the path.
template <typename Load>
void check_broken(const BrokenConfig& row, const std::string& valid, Load load) {
  INFO(row.name);
  std::string text = valid, where = "minimal.json:";
  std::vector<std::string> overrides;
  if (row.from == std::string("--set")) {
    const std::string argument = row.to;
    overrides.push_back(argument);
    where = "--set " + argument.substr(0, argument.find('='));
  } else {
    const size_t at = text.find(row.from);
    REQUIRE(at != std::string::npos);
    REQUIRE(text.find(row.from, at + 1) == std::string::npos);  // else the row means two places
    text.replace(at, std::string(row.from).size(), row.to);
    const size_t line_at = row.on_line != nullptr ? text.find(row.on_line) : at;
    REQUIRE(line_at != std::string::npos);
    const auto from = text.begin();
    where +=
        std::to_string(1 + std::count(from, from + static_cast<std::ptrdiff_t>(line_at), '\n'));
  }
  std::string message;
  try {
    load(text, overrides);
  } catch (const ConfigError& error) {
    message = error.what();
    CHECK(error.exit_code() == kExitConfig);
  }
  const std::string start = where + ": " + row.path + (*row.path != 0 ? ": " : "");
  INFO("message: " << message);
  CHECK(("\n" + message).find("\n" + start) != std::string::npos);  // other faults may follow
  for (const std::string& fragment : row.says) {
    INFO("must contain: " << fragment);
    CHECK(message.find(fragment) != std::string::npos);
  }
}

}  // namespace hlite::test
