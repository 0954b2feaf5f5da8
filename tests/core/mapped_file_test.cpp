#include "hugectr_lite/core/mapped_file.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite {
namespace {

std::string_view text_of_mapping(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_CASE("a mapped file shows its bytes, also once another file has its name") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "weights";
  test::write_text(path, "first");
  const MappedFile file(path);
  test::write_text(folder / "next", "second one");
  std::filesystem::rename(folder / "next", path);
  CHECK(text_of_mapping(file) == "first");
  MappedFile moved(path);
  moved = MappedFile(path);
  CHECK(text_of_mapping(moved) == "second one");
}

TEST_CASE("an empty file maps to no bytes, and a missing one is an error with its name") {
  const test::TemporaryDirectory folder;
  test::write_text(folder / "empty", "");
  CHECK(MappedFile(folder / "empty").bytes().empty());
  const std::string message =
      test::message_of<FileError>([&] { const MappedFile file(folder / "none"); });
  test::check_contains(message, {folder / "none", "cannot open: No such file or directory"});
}

// Bytes of the mapping that this process reads without a page fault.
size_t resident_bytes(const MappedFile& file) {
  std::istringstream lines(test::read_text("/proc/self/smaps"));
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(file.bytes().data()));
  size_t kilobytes = 0;
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    found |= line.starts_with(begin);
    if (found && std::sscanf(line.c_str(), "Rss: %zu kB", &kilobytes) == 1) break;
  }
  REQUIRE(found);
  return kilobytes << 10;
}

TEST_CASE("pages of a mapped file that are populated are read without page faults") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "weights";
  constexpr size_t kBytes = (size_t{33} << 20) + 5, kPage = 4096;
  test::write_text(path, std::string(kBytes, 'x'));
  int asked = 0;
  const MappedFile populated(path);
  populated.populate([&] { return ++asked == 100; });
  CHECK(asked == 3);  // every 16 MiB
  CHECK(resident_bytes(populated) == (kBytes + kPage - 1) / kPage * kPage);
  // Others of the same file, whose pages are in memory as well, but not in their tables.
  const MappedFile stopped(path), untouched(path);
  stopped.populate([] { return true; });
  CHECK(resident_bytes(stopped) == 0);
  CHECK(resident_bytes(untouched) == 0);
}

}  // namespace
}  // namespace hlite
