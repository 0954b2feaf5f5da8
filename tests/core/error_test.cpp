#include "hugectr_lite/core/error.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "tests/support/catch.h"

namespace hlite::test {
namespace {

template <typename Thrown>
Failure failure_of(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return current_failure();
  }
}

}  // namespace

TEST_CASE("an exception is what a program says and exits with") {
  const Failure config = failure_of(ConfigError("c.json:3: wrong"));
  CHECK(config.message == "c.json:3: wrong");
  CHECK(config.exit_code == kExitConfig);
  CHECK(failure_of(FileError("x")).exit_code == kExitData);
  CHECK(failure_of(DeviceError("x")).exit_code == kExitDevice);

  const Failure folder = failure_of(std::filesystem::filesystem_error(
      "status", "/a/b", std::make_error_code(std::errc::permission_denied)));
  CHECK(folder.message == "/a/b: Permission denied");
  CHECK(folder.exit_code == kExitData);

  const Failure memory = failure_of(std::bad_alloc());
  CHECK(memory.message == "out of memory");
  CHECK(memory.exit_code == kExitData);

  const Failure thread = failure_of(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(thread.message.starts_with("the system refused: "));
  CHECK(thread.exit_code == kExitInternal);

  const Failure bug = failure_of(std::out_of_range("at"));
  CHECK(bug.message == "internal error: at");
  CHECK(bug.exit_code == kExitInternal);
}

}  // namespace hlite::test
