// Sets for cuda_backends.h whether the running test has the tag [gpu].
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <algorithm>

#include "tests/support/cuda_backends.h"

namespace {

struct GpuTag : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    hlite::test::tagged_gpu =
        std::find(info.tags.begin(), info.tags.end(), "gpu") != info.tags.end();
  }
};
CATCH_REGISTER_LISTENER(GpuTag)

}  // namespace
