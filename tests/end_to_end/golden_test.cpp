// `train` reproduces runs of an independent implementation, number by number.
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"

namespace hlite::test {

TEST_CASE("the golden run dlrm_fused is reproduced, 1 thread", "[baseline]") {
  check_run("dlrm_fused", 1);
}
TEST_CASE("the golden run dlrm_fused is reproduced, 2 threads") { check_run("dlrm_fused", 2); }
TEST_CASE("the golden run dlrm_plain is reproduced, 1 thread") { check_run("dlrm_plain", 1); }
TEST_CASE("the golden run dlrm_plain is reproduced, 2 threads") { check_run("dlrm_plain", 2); }

// Wide & Deep, DeepFM, DCN, DLRM-DCNv2, MMoE.
TEST_CASE("the golden runs of the wider family are reproduced on one rank", "[no-tsan]") {
  for (const char* name : kFamilyRuns)
    for (const int threads : {1, 2}) check_run(name, threads);
}

TEST_CASE("the golden runs of the wider family are reproduced on several ranks",
          "[no-tsan][slow][release-only]") {
  for (const char* name : kFamilyRuns)
    for (const char* ranks : {"[[0,1]]", "[[0,1,2,3]]"}) check_run(name, 2, {gpu(ranks)});
}

}  // namespace hlite::test
