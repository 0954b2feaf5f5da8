#include "hugectr_lite/core/plugin_file.h"

#include <cstdlib>
#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

TEST_CASE("a plug-in is looked for next to the program, then on the loader's path") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string folder = program.parent_path().string();
  CHECK(plugin_folders() == std::vector{folder});
  CHECK(plugin_file(program.filename().string()) == program.string());
  CHECK(plugin_file("libnowhere.so") == "libnowhere.so");
}

TEST_CASE("a plug-in that is missing or broken is refused with what the loader says and advice") {
  const PluginNames names{.name = "test",
                          .library = "libhlite_nowhere.so",
                          .entry = "hlite_test",
                          .variable = "HLITE_TEST_LIBRARY",
                          .advice = "install it",
                          .version = 1};
  const OpenedPlugin missing = open_plugin(names);
  CHECK(missing.table == nullptr);
  check_contains(missing.reason,
                 {"the test plug-in is not in " + plugin_folders().front(), "the loader's path",
                  "libhlite_nowhere.so: cannot open shared object file", "; install it"});
  const TemporaryDirectory folder;
  const std::string file = folder / "libbroken.so";
  write_text(file, "no library");
  setenv(names.variable, file.c_str(), 1);
  const OpenedPlugin broken = open_plugin(names);
  unsetenv(names.variable);
  CHECK(broken.table == nullptr);
  check_contains(broken.reason,
                 {"cannot load the test plug-in " + file, "file too short", "; install it"});
}

}  // namespace
}  // namespace hlite::test
