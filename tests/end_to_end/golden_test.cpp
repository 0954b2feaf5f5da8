// `train` reproduces runs of an independent implementation, number by number.
#include "tests/end_to_end/golden_run.h"

namespace hlite::test {

TEST_CASE("the golden run dlrm_fused is reproduced, 1 thread") { check_run("dlrm_fused", 1); }
TEST_CASE("the golden run dlrm_fused is reproduced, 2 threads") { check_run("dlrm_fused", 2); }
TEST_CASE("the golden run dlrm_plain is reproduced, 1 thread") { check_run("dlrm_plain", 1); }
TEST_CASE("the golden run dlrm_plain is reproduced, 2 threads") { check_run("dlrm_plain", 2); }

}  // namespace hlite::test
