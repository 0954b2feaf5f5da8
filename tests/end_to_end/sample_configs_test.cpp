// `train --check` on configs of the structure of HugeCTR's sample models, in every spelling.
#include "tests/end_to_end/sample_config.h"
#include "tests/support/catch.h"
#include "tests/support/program.h"

namespace hlite::test {
namespace {

constexpr const char* kEight = "[0,1,2,3,4,5,6,7]";
constexpr const char* kTwoNodes = "[[0,1,2,3,4,5,6,7],[0,1,2,3,4,5,6,7]]";

std::vector<SampleConfig> sample_configs() {
  std::vector<SampleConfig> all;
  for (const bool later : {false, true}) {
    for (const char* model : {"criteo", "criteo_multi_slots", "wdl", "deepfm", "dcn"})
      for (const char* format : {"Norm", "Raw", "Parquet"})
        all.push_back({.model = model, .format = format, .later = later});
    for (const char* model : {"dcn", "deepfm", "wdl_deep"}) {
      all.push_back({.model = model, .gpu = kEight, .later = later});
      all.push_back({.model = model, .gpu = kEight, .later = later, .localized = true});
      all.push_back(
          {.model = model, .gpu = kEight, .later = later, .localized = true, .plan_file = true});
      all.push_back({.model = model,
                     .gpu = kEight,
                     .later = later,
                     .fp16 = true,
                     .localized = true,
                     .plan_file = true});
    }
    for (const bool localized : {false, true})
      all.push_back({.model = "dcn", .gpu = kTwoNodes, .later = later, .localized = localized});
    for (const char* gpu : {"[0]", "[0,1]"})
      all.push_back({.model = "wdl", .gpu = gpu, .later = later, .fp16 = true});
    for (const char* model : {"dlrm", "dlrm_fused"})
      for (const char* format : {"Raw", "RawAsync"})
        for (const bool fp16 : {false, true})
          all.push_back({.model = model,
                         .format = format,
                         .gpu = fp16 ? kEight : "[0]",
                         .later = later,
                         .fp16 = fp16,
                         .localized = true});
  }
  for (const char* model : {"ncf", "gmf", "neumf", "mmoe", "shared_bottom", "din"})
    all.push_back({.model = model, .later = true});
  for (const char* model : {"din", "mmoe"})
    all.push_back({.model = model, .format = "Parquet", .later = true});
  all.push_back({.model = "din", .gpu = kEight, .later = true});
  return all;
}

}  // namespace

TEST_CASE("configs of the sample models are valid") {
  const TemporaryDirectory directory;
  const auto all = sample_configs();
  CHECK(all.size() >= 60);
  for (const SampleConfig& c : all) {
    INFO(c.name());
    const std::string path = directory / "config.json";
    write_text(path, c.text());
    CHECK(run_program({HLITE_TRAIN, "--check", "--device", "cpu", "--config", path}).code == 0);
  }
}

}  // namespace hlite::test
