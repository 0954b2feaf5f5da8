#include "hugectr_lite/core/plugin_file.h"

#include <filesystem>

#include "tests/support/catch.h"

namespace hlite::test {
namespace {

TEST_CASE("a plug-in is looked for next to the program, then on the loader's path") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string folder = program.parent_path().string();
  CHECK(plugin_folders() == std::vector{folder});
  CHECK(plugin_file(program.filename().string()) == program.string());
  CHECK(plugin_file("libnowhere.so") == "libnowhere.so");
}

}  // namespace
}  // namespace hlite::test
