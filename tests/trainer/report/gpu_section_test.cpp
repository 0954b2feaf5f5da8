#include "hugectr_lite/trainer/report/gpu_section.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::trainer {

using test::check_contains;

TEST_CASE("a run without GPUs that report anything has no section of them") {
  CHECK(gpu_section({}) == "");
}

TEST_CASE(
    "a section of GPUs has a mean and a range for what each reported, and why it was slowed") {
  const GpuEvent first{
      .iter = 50,
      .gpus = {{.device = 3, .watts = 310, .celsius = 61, .slowed_by = {"power <limit>"}},
               {.device = 5, .watts = 200}}},
      second{.iter = 100, .gpus = {{.device = 3}, {.device = 5, .watts = 100}}};
  const std::string section = gpu_section({first, second}).dump();
  check_contains(section,
                 {R"({"name":"GPU 5","points":[[50,200.0],[100,100.0]]}],"title":"Power, W")",
                  "Temperature, C",
                  R"j([3,"310 (310 to 310)","not reported","61 (61 to 61)","power <limit>"])j",
                  R"j([5,"150 (100 to 200)","not reported","not reported","nothing"])j"});
  // A chart without data is left out.
  CHECK(section.find("Clock, MHz") == std::string::npos);
}

}  // namespace hlite::trainer
