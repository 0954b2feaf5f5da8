// Sets for cuda_backends.h whether the running test has the tag [gpu].
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // for Catch2 2
#include <algorithm>

#include "tests/support/cuda_backends.h"

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#endif

namespace {

#if __has_include(<catch2/catch_test_macros.hpp>)
using Listener = Catch::EventListenerBase;
bool is_gpu(const Catch::Tag& tag) { return tag == Catch::Tag("gpu"); }
#else
using Listener = Catch::TestEventListenerBase;
bool is_gpu(const std::string& tag) { return tag == "gpu"; }
#endif

struct GpuTag : Listener {
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    hlite::test::tagged_gpu = std::any_of(info.tags.begin(), info.tags.end(), is_gpu);
  }
};
CATCH_REGISTER_LISTENER(GpuTag)

}  // namespace
