// A Predictor on an emulated GPU: what it keeps for the batches of a server, whose sizes are any.
#include "hugectr_lite/predict/predictor.h"

#include <algorithm>
#include <cstdlib>

#include "hugectr_lite/plan/device_executor.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "tests/predict/predict_case.h"

namespace hlite::test {
namespace {

TEST_CASE("batches on a GPU are filled up to few sizes") {
  const auto filled = [](int64_t n) { return predict::filled_up(n, 1000); };
  CHECK((filled(0) == 1 && filled(1) == 1 && filled(2) == 2 && filled(3) == 4));
  CHECK((filled(33) == 64 && filled(64) == 64 && filled(65) == 128 && filled(512) == 512));
  CHECK((filled(961) == 1000 && filled(1000) == 1000));
}

TEST_CASE("a predictor on a GPU keeps few graphs, and a score is that of any batch",
          "[no-asan][no-tsan]") {
  const SmallRun run;
  REQUIRE(run.train({"--export", run / "w.safetensors"}).code == 0);
  setenv("HLITE_CUDA_LIBRARY", HLITE_EMULATED_PLUGIN, 1);
  const std::string weights = run / "w.safetensors";
  const auto config = predict::prediction_config({.path = run / "config.json"}, weights, {}, 200);
  predict::Predictor predictor(*config, {.model = weights},
                               {.device = config::DeviceChoice::kCuda, .threads = 1});
  unsetenv("HLITE_CUDA_LIBRARY");
  const int64_t most = predictor.batch_size();
  REQUIRE(most == 200);

  const config::DataConfig& data = config->data;
  data::BatchBuffer buffer(most, data.label_width(), data.dense_width(), data.key_layout().columns);
  const auto scores = [&](int64_t first, int64_t n) {
    buffer.set_size(n);
    data::HostBatch& batch = buffer.batch();
    for (int64_t b = 0; b < n; ++b) {
      for (int64_t j = 0; j < data.dense_dim; ++j)
        batch.dense(b, j) = static_cast<float>((first + b) * (j + 3) % 17) / 8;
      for (int64_t j = 0; j < data.key_layout().columns; ++j)
        batch.keys(b, j) = static_cast<uint32_t>((first + b) * (j + 5) % 5);
    }
    trainer::SampleOutputs outputs;
    predictor.run(batch, outputs);
    return outputs.logits;
  };
  const std::vector<float> all = scores(0, most);
  int64_t first = 0;
  for (int round = 0; round < 4; ++round)
    for (int64_t n = 1; n <= most; n += 3) {
      first = (first + 37) % (most - n + 1);
      const std::vector<float> got = scores(first, n);
      REQUIRE(std::equal(got.begin(), got.end(), all.begin() + first, all.begin() + first + n));
    }
  // 1, 4, 8, ... 64, 128, 192 and 200, for two sets of inputs.
  const auto& executor = dynamic_cast<const plan::DeviceExecutor&>(predictor.model().executor());
  CHECK(executor.graphs() == 18);
}

}  // namespace
}  // namespace hlite::test
