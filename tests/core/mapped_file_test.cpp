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
  const MappedFile file{ReadFile(path)};
  test::write_text(folder / "next", "second one");
  std::filesystem::rename(folder / "next", path);
  CHECK(text_of_mapping(file) == "first");
  MappedFile moved{ReadFile(path)};
  moved = MappedFile(ReadFile(path));
  CHECK(text_of_mapping(moved) == "second one");
  CHECK_FALSE(moved.has_lost_pages());
}

TEST_CASE("an empty file maps to no bytes") {
  const test::TemporaryDirectory folder;
  test::write_text(folder / "empty", "");
  const MappedFile file{ReadFile(folder / "empty")};
  CHECK(file.bytes().empty());
  CHECK_FALSE(file.has_lost_pages());
}

TEST_CASE("what a file loses under its mapping becomes zeros, and that is known") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "weights", other = folder / "other";
  constexpr size_t kPage = 4096, kBytes = 5 * kPage + 7;
  for (int again = 0; again < 3; ++again) {  // the place of a mapping that is gone serves the next
    test::write_text(path, std::string(kBytes, 'x'));
    test::write_text(other, std::string(kBytes, 'y'));
    const ReadFile opened(path);
    const MappedFile file(opened), whole{ReadFile(other)};
    CHECK(file.bytes()[4 * kPage] == std::byte('x'));
    std::filesystem::resize_file(path, kPage + 10);
    CHECK_FALSE(file.has_lost_pages());  // none was touched
    CHECK(file.bytes()[kPage + 9] == std::byte('x'));
    CHECK(file.bytes()[kPage + 10] == std::byte(0));
    CHECK(file.bytes()[kBytes - 1] == std::byte(0));
    CHECK(file.has_lost_pages());
    CHECK(file.bytes()[3 * kPage] == std::byte(0));
    file.populate([] { return false; });
    CHECK_THROWS_AS(opened.expect_unchanged(), FileError);
    CHECK(text_of_mapping(whole) == std::string(kBytes, 'y'));
    CHECK_FALSE(whole.has_lost_pages());
  }
}

TEST_CASE("every write after a mapping has a time of its own") {
  const test::TemporaryDirectory folder;
  for (int again = 0; again < 20; ++again) {
    const std::string path = folder / std::to_string(again);
    test::write_text(path, "first");
    const ReadFile opened(path);
    const MappedFile file(opened);
    opened.expect_unchanged();
    test::write_text(path, "other");  // at once
    CHECK_THROWS_AS(opened.expect_unchanged(), FileError);
  }
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
  const MappedFile populated{ReadFile(path)};
  populated.populate([&] { return ++asked == 100; });
  CHECK(asked == 3);  // every 16 MiB
  CHECK(resident_bytes(populated) == (kBytes + kPage - 1) / kPage * kPage);
  // Others of the same file, whose pages are in memory as well, but not in their tables.
  const MappedFile stopped{ReadFile(path)}, untouched{ReadFile(path)};
  stopped.populate([] { return true; });
  CHECK(resident_bytes(stopped) == 0);
  CHECK(resident_bytes(untouched) == 0);
}

}  // namespace
}  // namespace hlite
