// Reports of the GPUs of a run: by the driver's management library, of which there is a stand-in,
// and of their links.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {

TEST_CASE("a run on GPUs says what they draw, once why they are slow, and trains the same bits",
          "[no-tsan]") {
  Golden run("dlrm_fused");
  const Words watched =
      kFourGpus + Words{std::string("HLITE_NVML_LIBRARY=") + HLITE_FAKE_NVML_LIBRARY,
                        "HLITE_FAKE_NVML=power=300000,310000,320000,330500 clock=1700 "
                        "temperature=50,71,52,53 reasons=0,0x40,0,0 energy=7"};
  const auto train = [&](const Words& environment, const Words& more) {
    const auto result = run.train(
        environment, "cuda",
        more + on_ranks("[[0,1],[2,3]]",
                        {"solver.max_iter=6", "solver.display=2", "solver.eval_interval=0"}));
    REQUIRE(result.code == 0);
    return result.out + result.err;
  };
  const std::string text = train(watched, {"--metrics", run / "m.jsonl", "--report", run / "r.html",
                                           "--export", run / "watched.safetensors"});
  check_contains(text, {"1260 W  71 C",
                        "GPU 1 is slower than it could be: temperature, by the "
                        "hardware; its clock is 1700 MHz"});
  const std::string once = "is slower than it could be";
  CHECK(text.find(once) == text.rfind(once));
  const auto events = events_in(run / "m.jsonl", "gpu");
  const auto end = last_event(run / "m.jsonl", "end");
  REQUIRE(events.size() == 3);
  CHECK(events[1]["iter"] == 4);
  CHECK(events[1]["watts"] == 1260.5);
  REQUIRE(events[1]["gpus"].size() == 4);
  CHECK(events[1]["gpus"][3]["watts"] == 330.5);
  CHECK(events[1]["gpus"][1]["slowed_by"][0] == "temperature, by the hardware");
  CHECK(end["gpu_joules"].get<double>() > events[2]["joules"].get<double>());
  check_contains(read_text(run / "r.html"),
                 {"Temperature, C", "by the hardware", "energy of the GPUs"});
  // Without the library nothing is said of it.
  const std::string plain =
      train(kFourGpus + Words{"HLITE_NVML_LIBRARY="}, {"--export", run / "plain.safetensors"});
  CHECK(plain.find(" W  ") == std::string::npos);
  CHECK(plain.find("NVML") == std::string::npos);
  CHECK((read_weights(run / "plain.safetensors") == read_weights(run / "watched.safetensors")));
}

TEST_CASE("a run shows its GPUs' links, and --links how fast they are", "[no-tsan]") {
  Golden run("dlrm_fused");
  const auto train = [&](const Words& environment, const Words& more) {
    const auto result =
        run.train(kFourGpus + environment, "cuda",
                  more + changes_of({gpu("[[0,1],[2,3]]"), kBetween, "solver.max_iter=1"}));
    REQUIRE(result.code == 0);
    return result;
  };
  const auto good = train({}, {});
  check_contains(good.out + good.err,
                 {"over NVLink", "rank 3      NVLink  NVLink  NVLink       -"});
  // Warnings come with --quiet too.
  check_contains(train({"HLITE_EMULATED_BUS=all"}, {"--quiet"}).err,
                 {"6 of 6 pairs of GPUs reach each other over the bus (PCIe) only"});
  const auto links = train({"HLITE_EMULATED_BUS=0-2"}, {"--links"});
  check_contains(links.out, {"some over the bus only", "rank 0           -  NVLink     bus  NVLink",
                             "GB/s to", "warning: 1 of 6 pairs of GPUs", ": 0-2;"});
  CHECK(links.out.find("iter ") == std::string::npos);
  CHECK(run.train(kFourGpus, "cpu", {"--links"}).code == 2);
  CHECK(run.train({"/usr/bin/env", "HLITE_CUDA_LIBRARY=/no/such.so"}, "cuda", {"--links"}).code ==
        4);
}

}  // namespace hlite::test
