#include "hugectr_lite/trainer/model/model_sizes.h"

#include <set>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/network/layer_registry.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::trainer {

TEST_CASE("the largest tables are named with rows and bytes, the largest first") {
  const std::vector<TableSize> tables = {{"a", 10, 4000},
                                         {"b", 40'000'000, 20'480'000'000},
                                         {"c", 3, 1000},
                                         {"d", 10, 4000},
                                         {"e", 700, 2'800'000}};
  CHECK(largest_tables(tables) ==
        "b (40000000 rows, 20.5 GB), e (700 rows, 2.8 MB), a (10 rows, 4.0 kB)");
  CHECK(largest_tables({{"a", 1, 4}}) == "a (1 rows, 0.0 kB)");
}

TEST_CASE(
    "a model that does not fit a device is refused with both numbers and the largest tables") {
  const cuda::Backend& gpu = test::emulated_cuda();
  require_device_memory(gpu, 1000, {});
  int64_t free = 0, total = 0;
  gpu.memory_info(&free, &total);
  require_device_memory(gpu, free, {});
  const std::string text = test::message_of<DeviceError>([&] {
    require_device_memory(gpu, 96'000'000'000, {{"emb.table_7", 5, 95'000'000'000}});
  });
  test::check_contains(text, {"96.0 GB needed", "1.1 GB free", "94.9 GB missing",
                              "emb.table_7 (5 rows, 95.0 GB)", "--device cpu"});
}

TEST_CASE("heads that a GPU has no room for are refused when a model is built for one") {
  using Changes = std::vector<std::string>;
  const auto build = [](const Changes& changes, const cuda::Backend* gpu) {
    const auto config =
        config::load_train_config(std::string(HLITE_FUZZ_CONFIGS) + "/every_layer.json", changes);
    const Model model(*config, 1, 1, {}, gpu);
  };
  const auto refused = [&](const Changes& changes, std::initializer_list<std::string_view> words) {
    test::check_contains(test::message_of<ConfigError>([&] { build(changes, &absent_gpu()); }),
                         words);
    build(changes, nullptr);
  };
  const auto wide = [](int64_t width) {  // two of these a position, for two heads
    return fmt::format("layers.goods.sparse_embedding_hparam.embedding_vec_size={}", width);
  };
  refused({wide(513)}, {"every_layer.json:120: layers[", "at most 512 columns in \"heads\"",
                        "found 513", "--device cpu"});
  build({wide(512)}, &absent_gpu());
  for (const char* key : {"attention_dim", "hidden_dim"}) {
    const std::string of = fmt::format("layers.hstu.hstu_param.{}=", key);
    refused({of + "257"}, {"every_layer.json:125: layers[", "at most 256 columns in \"hstu\"",
                           "found 257", "--device cpu"});
    build({of + "256"}, &absent_gpu());
  }
}

// What config_fuzz begins with: it would not find the way into a layer by itself.
TEST_CASE("the fuzzer's configs are sound and have every layer") {
  std::set<std::string> seen;
  for (const char* const file : {"every_layer.json", "tasks.json", "values.json"}) {
    INFO(file);
    const auto config = config::load_train_config(std::string(HLITE_FUZZ_CONFIGS) + "/" + file, {});
    const Model model(*config, 1, 1);
    CHECK(memory_of(model).total() > 0);
    for (const config::JsonNode* const layer : config->layers)
      seen.insert(layer->find("type")->string());
  }
  for (const std::string& type : network::layer_types()) {
    INFO(type);
    CHECK(seen.contains(type));
  }
  for (const auto& embedding : config::kEmbeddingTypes) {
    INFO(embedding.name);
    CHECK(seen.contains(embedding.name));
  }
}

}  // namespace hlite::trainer
