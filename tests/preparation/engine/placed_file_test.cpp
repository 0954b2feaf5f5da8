#include "hugectr_lite/preparation/engine/placed_file.h"

#include <filesystem>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::message_of;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_at(const PlacedFile& file, int64_t offset, size_t bytes) {
  std::string text(bytes, '\0');
  file.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST_CASE("bytes come to the places they are written to, and a later run keeps those it knows of") {
  const test::TemporaryDirectory folder;
  {
    const PlacedFile file(folder / "f", 0);
    file.write(4, bytes_of("efgh"));
    file.write(0, bytes_of("abcd"));
    CHECK(text_at(file, 2, 4) == "cdef");
  }
  const PlacedFile again(folder / "f", 6);
  CHECK(test::read_text(folder / "f") == "abcdef");
  CHECK(message_of<FileError>([&] { text_at(again, 4, 4); }) ==
        (folder / "f") + ": cannot read 2 bytes at offset 6: it ends before");
  CHECK(message_of<DataError>([&] { PlacedFile(folder / "f", 7); }) ==
        (folder / "f") +
            ": expected 7 bytes of the unfinished run, found 6; --restart forgets that run");
  check_contains(message_of<FileError>([&] { PlacedFile(folder / "none/f", 0); }),
                 {"none/f: cannot create: No such file or directory"});
}

TEST_CASE("a scratch file has no name") {
  const test::TemporaryDirectory folder;
  const PlacedFile file = PlacedFile::scratch(folder.path());
  file.write(100, bytes_of("x"));
  CHECK(text_at(file, 99, 2) == std::string("\0x", 2));
  CHECK(folder.entries() == 0);
  CHECK(file.name() == folder.path() + ", scratch file");
  check_contains(message_of<FileError>([&] { PlacedFile::scratch(folder / "none"); }),
                 {"none: cannot create a scratch file: No such file or directory"});
}

}  // namespace
}  // namespace hlite::prep
