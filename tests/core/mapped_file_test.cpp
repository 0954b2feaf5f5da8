#include "hugectr_lite/core/mapped_file.h"

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

}  // namespace
}  // namespace hlite
