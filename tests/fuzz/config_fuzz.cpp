// libFuzzer target: a config from arbitrary text, changed by an arbitrary --set. hlite::Error is
// the right answer to anything broken; every other exception, and what a sanitizer sees, is a bug.
//
// Input: <config text>, or <--set argument> 0x01 <config text>. Seed it with configs/*.json and
// tests/fuzz/configs/*.json, which have every layer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/model_sizes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hlite;
  log::set_level(log::Level::kWarning);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (const size_t split = text.find('\x01'); split != std::string_view::npos) {
    overrides.emplace_back(text.substr(0, split));
    text.remove_prefix(split + 1);
  }
  std::string accepted;
  try {
    const auto config =
        config::read_train_config(config::JsonNode::parse(text, "fuzz.json"), "", overrides);
    trainer::require_valid(*config);
    accepted = config->root.dump();
    // Layers, wiring, shapes and sizes; takes no memory for tables or activations.
    static_cast<void>(trainer::memory_of(trainer::Model(*config, 1, 1)));
  } catch (const Error&) {
    if (accepted.empty()) return 0;
  }
  // What was accepted must survive being written and read again, as a checkpoint does.
  if (config::parse_train_config(accepted, "dump.json", {})->root.dump() != accepted) {
    __builtin_trap();
  }
  return 0;
}
