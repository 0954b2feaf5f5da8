#include "tools/input_file.h"

#include <fstream>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"
#include "tests/tools/gzip_file.h"

namespace hlite::tools {
namespace {

using test::TemporaryDirectory;

TEST_CASE("blocks put together are the file, every block ends with a line feed") {
  TemporaryDirectory folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::string(static_cast<size_t>(i * 37 % 61), 'x') + "\n";
  for (const bool final_newline : {true, false}) {
    const std::string written = final_newline ? text : text + "last";
    const std::string expected = final_newline ? text : text + "last\n";
    test::write_text(folder / "plain", written);
    test::write_gzip(folder / "packed", written);
    for (const char* name : {"plain", "packed"}) {
      for (const size_t capacity : {size_t{61}, size_t{64}, size_t{1000}, size_t{100000}}) {
        INFO(name << ", blocks of " << capacity);
        InputFile file(folder / name);
        LineBlock block;
        std::string got;
        int64_t line = 1;
        while (file.next(block, capacity)) {
          CHECK(block.first_line == line);
          CHECK(block.text().back() == '\n');
          CHECK(block.size <= capacity + 1);
          line += block.lines;
          got += block.text();
        }
        CHECK(got == expected);
        CHECK(line - 1 == (final_newline ? 200 : 201));
        CHECK(file.bytes_read() == static_cast<int64_t>(written.size()));
      }
    }
  }
}

TEST_CASE("an empty file has no blocks") {
  TemporaryDirectory folder;
  test::write_text(folder / "empty", "");
  InputFile file(folder / "empty");
  LineBlock block;
  CHECK_FALSE(file.next(block, 100));
}

TEST_CASE("a line longer than a block is an error with its number") {
  TemporaryDirectory folder;
  test::write_text(folder / "long", "short\n" + std::string(100, 'x') + "\n");
  const std::string message = test::message_of<DataError>([&] {
    InputFile file(folder / "long");
    LineBlock block;
    while (file.next(block, 50)) {
    }
  });
  test::check_contains(message, {"long:2: expected a line of at most 50 bytes"});
}

TEST_CASE("a gzip file cut short is an error, not a shorter file") {
  TemporaryDirectory folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919) + "\n";
  test::write_gzip(folder / "whole.gz", text);
  const std::string packed = test::read_text(folder / "whole.gz");
  test::write_text(folder / "cut.gz", packed.substr(0, packed.size() - 20));
  const std::string message = test::message_of<FileError>([&] {
    InputFile file(folder / "cut.gz");
    LineBlock block;
    while (file.next(block, 1000)) {
    }
  });
  test::check_contains(message, {"cut.gz: cannot read", "cut short"});
}

}  // namespace
}  // namespace hlite::tools
