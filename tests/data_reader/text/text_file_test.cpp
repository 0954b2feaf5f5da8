#include "data_reader/text/text_file.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::message_of;

TEST_CASE("pieces of a text are its lines") {
  const test::TemporaryDirectory folder;
  // A line longer than what is read at once, empty ones, and a last one without a line feed.
  std::vector<std::string> lines = {"first", "", std::string(3 << 20, 'x'), "\r", "5"};
  for (int i = 0; i < 30; ++i) lines.push_back(std::string(static_cast<size_t>(i), 'y'));
  const auto n = std::ssize(lines);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  for (const bool complete : {true, false}) {
    test::write_text(folder / "a.txt", complete ? text : text.substr(0, text.size() - 1));
    for (const int64_t piece : {1, 2, 7, 35, 100}) {
      const TextFile file(folder / "a.txt", piece, 1000);
      INFO("pieces of " << piece << ", complete " << complete);
      CHECK(file.lines() == n);
      for (int64_t first = (n - 1) / piece * piece; first >= 0; first -= piece) {
        std::string expected, found;
        for (int64_t i = first; i < std::min<int64_t>(n, first + piece); ++i)
          expected += lines[static_cast<size_t>(i)] + "\n";
        file.read(first / piece, found);
        CHECK(found == expected);
      }
    }
  }
}

TEST_CASE("a text is read up to the last line that is wanted") {
  const test::TemporaryDirectory folder;
  test::write_text(folder / "a.txt", "1\n2\n3\n4\n5\n");
  const TextFile file(folder / "a.txt", 2, 3);
  CHECK(file.lines() == 3);
  std::string text;
  file.read(1, text);
  CHECK(text == "3\n");
}

TEST_CASE("a text file that is none is refused") {
  const test::TemporaryDirectory folder;
  const auto refused = [&](const std::string& bytes) {
    test::write_text(folder / "a.txt", bytes);
    return message_of<DataError>([&] { const TextFile file(folder / "a.txt", 1, 10); });
  };
  check_contains(refused(""), {"a.txt", "found an empty file"});
  check_contains(refused("\x1f\x8b\x08 etc"), {"a.txt", "compressed by gzip", "criteo_prep"});
  check_contains(refused("\x28\xb5\x2f\xfd etc"), {"a.txt", "compressed by zstd"});
  CHECK_THROWS_AS(TextFile(folder / "none.txt", 1, 10), FileError);
}
