#include "hugectr_lite/core/mapped_file.h"

#include <sys/resource.h>

#include <filesystem>
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

// Page faults of this thread while it reads a byte of each page.
int64_t faults_of_reading(const MappedFile& file) {
  const auto faults = [] {
    rusage usage = {};
    REQUIRE(::getrusage(RUSAGE_THREAD, &usage) == 0);
    return static_cast<int64_t>(usage.ru_minflt);
  };
  constexpr size_t kPage = 4096;
  volatile unsigned sum = 0;
  const int64_t before = faults();
  for (size_t at = 0; at < file.bytes().size(); at += kPage)
    sum = sum + static_cast<unsigned>(file.bytes()[at]);
  return faults() - before;
}

// A sanitizer's shadow memory has page faults of its own.
TEST_CASE("pages of a mapped file that are populated are read without page faults",
          "[no-asan][no-tsan]") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "weights";
  test::write_text(path, std::string((size_t{33} << 20) + 5, 'x'));
  int asked = 0;
  const MappedFile populated(path), stopped(path), untouched(path);
  populated.populate([&] { return ++asked == 100; });
  CHECK(asked == 3);  // every 16 MiB
  stopped.populate([] { return true; });
  CHECK(faults_of_reading(populated) < 5);
  // A fault maps what lies together in the page cache: 64 KiB, or 2 MiB of newer kernels.
  CHECK(faults_of_reading(stopped) > 10);
  CHECK(faults_of_reading(untouched) > 10);
}

}  // namespace
}  // namespace hlite
