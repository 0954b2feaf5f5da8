// `train` in bf16 on the CPU.
#include <optional>

#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

const std::string kBf16 = "solver.precision=bf16";
// A processor that has no products of bf16.
const std::vector<std::string> kAvx2 = {"/usr/bin/env", "HLITE_INSTRUCTIONS=avx2"};

}  // namespace

TEST_CASE("golden runs in bf16 on the CPU reach the AUC of float", "[no-tsan]") {
  check_run_16_bits("dlrm_fused", {kBf16});
  check_run_16_bits("dlrm_plain", {"solver.mixed_precision=1024"});
  check_run_16_bits("hstu", {"solver.mixed_precision=1024"});
}

TEST_CASE("golden runs in bf16 reach it too where the processor has no products of bf16",
          "[no-tsan]") {
  check_run_16_bits("dlrm_fused", {kBf16}, kAvx2);
  check_run_16_bits("dlrm_plain", {kBf16}, kAvx2);
}

TEST_CASE("golden runs in bf16 on ranks of several nodes reach it", "[no-tsan]") {
  check_run_16_bits("dlrm_fused",
                    {kBf16, gpu("[[0,1],[0,1]]"),
                     "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink"});
}

TEST_CASE("runs in bf16 on the CPU repeat and resume to the same bits") {
  const SmallRun run;
  for (const char* ranks : {"[[0]]", "[[0,1],[0,1]]"}) {
    INFO(ranks);
    const auto train = [&](const std::string& name, std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), {"--quiet", "--device", "cpu", "--threads", "4", "--set",
                                         kBf16, "--set", gpu(ranks), "--save", run / name});
      REQUIRE(run.train(arguments).code == 0);
      return everything(run / name);
    };
    const auto whole = train("whole", {"--set", "solver.max_iter=60"});
    CHECK((train("again", {"--set", "solver.max_iter=60"}) == whole));
    train("half", {"--set", "solver.max_iter=33"});
    CHECK((train("rest", {"--set", "solver.max_iter=60", "--resume", run / "half"}) == whole));
  }
}

TEST_CASE("what a processor gains by bf16 is said; fp16 on the CPU is refused") {
  const SmallRun run;
  const auto train = [&](std::vector<std::string> prefix, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--device", "cpu", "--set", "solver.max_iter=2"});
    for (const std::string& word : run.command(arguments)) prefix.push_back(word);
    return run_program(prefix);
  };
  const std::string nothing = "bf16; neither AMX nor AVX-512 BF16: bf16 products at the rate of ";
  for (const auto& [code, out, err] :
       {train(kAvx2, {"--set", kBf16}), train(kAvx2, {"--set", kBf16, "--check"})}) {
    INFO(out << err);
    CHECK(code == 0);
    CHECK((out + err).find(nothing) != std::string::npos);
  }
  CHECK(train({}, {"--set", kBf16}).err.find("bf16; ") != std::string::npos);
  CHECK(train({}, {}).err.find("bf16; ") == std::string::npos);
  CHECK(train({}, {"--set", "solver.mixed_precision=1024"})
            .err.find("mixed_precision on the CPU: bf16, without a loss scale; ") !=
        std::string::npos);
  const auto refused = train({}, {"--set", "solver.precision=fp16"});
  INFO(refused.err);
  CHECK(refused.code == 2);
  check_contains(refused.err,
                 {"solver.precision", R"(expected "bf16" or "fp32" where training is on the CPU)"});
}

}  // namespace hlite::test
