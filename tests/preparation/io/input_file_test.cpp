#include "hugectr_lite/preparation/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "tests/preparation/io/gzip_file.h"
#include "tests/preparation/io/zstd_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;

// All lines of a file, in blocks of `capacity` bytes.
std::string text_of(InputFile& file, size_t capacity) {
  LineBlock block;
  std::string text;
  while (file.next(block, capacity)) text += block.text();
  return text;
}

std::string text_of(const std::string& path, size_t capacity = 1000) {
  InputFile file(path);
  return text_of(file, capacity);
}

std::string numbered_lines(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += std::to_string(i * 7919) + "\n";
  return text;
}

// Standard input comes from this file or, with as_pipe, from a pipe that holds its bytes.
class StandardInput {
 public:
  explicit StandardInput(const std::string& path, bool as_pipe) : old_(dup(STDIN_FILENO)) {
    const std::string bytes = test::read_text(path);
    int ends[2];
    if (as_pipe) {
      REQUIRE(bytes.size() < 60000);  // fits into a pipe
      REQUIRE(pipe(ends) == 0);
      REQUIRE(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
      close(ends[1]);
    } else {
      ends[0] = open(path.c_str(), O_RDONLY);
    }
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
  }
  ~StandardInput() {
    dup2(old_, STDIN_FILENO);
    close(old_);
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  int old_;
};

TEST_CASE("blocks put together are the file, every block ends with a line feed") {
  TemporaryDirectory folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::string(static_cast<size_t>(i * 37 % 61), 'x') + "\n";
  for (const bool final_newline : {true, false}) {
    const std::string written = final_newline ? text : text + "last";
    const std::string expected = final_newline ? text : text + "last\n";
    test::write_text(folder / "plain", written);
    test::write_gzip(folder / "gzip", written);
    test::write_zstd(folder / "zstd", written);
    for (const char* name : {"plain", "gzip", "zstd"}) {
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
  test::write_text(folder / "plain", "");
  test::write_gzip(folder / "gzip", "");
  test::write_zstd(folder / "zstd", "");
  for (const char* name : {"plain", "gzip", "zstd"}) {
    InputFile file(folder / name);
    LineBlock block;
    CHECK_FALSE(file.next(block, 100));
    CHECK_FALSE(file.next(block, 100));
  }
  for (const char* text : {"x", "\x1f", "\x1f\n", "\x28\xb5\x2f", "\n\n"}) {
    test::write_text(folder / "short", text);
    const std::string read = text_of(folder / "short");
    CHECK(read == (read == text ? text : std::string(text) + "\n"));
  }
}

TEST_CASE("a byte-order mark is no part of the first line") {
  TemporaryDirectory folder;
  const std::string mark = "\xEF\xBB\xBF", text = "a,b\n" + mark + "1,2\n";
  test::write_text(folder / "plain", mark + text);
  test::write_gzip(folder / "gzip", mark + text);
  for (const char* name : {"plain", "gzip"}) {
    CHECK(text_of(folder / name) == text);
  }
  test::write_text(folder / "mark", mark);
  CHECK(text_of(folder / "mark").empty());
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
  test::check_contains(message, {"long:2: expected a row of at most 50 bytes"});
}

// A row and the number of its first line.
using NumberedRow = std::pair<std::string, int64_t>;

std::vector<NumberedRow> numbered_rows(const std::string& path, const TextForm& form,
                                       size_t capacity) {
  InputFile file(path, form);
  LineBlock block;
  std::vector<NumberedRow> rows;
  while (file.next(block, capacity)) {
    CHECK(block.front() == block.text().substr(0, block.front().size()));
    block.for_each_row([&](std::string_view row, int64_t number) {
      rows.emplace_back(row, number);
      return true;
    });
  }
  return rows;
}

TEST_CASE("a quoted field may span lines, wherever blocks are cut") {
  TemporaryDirectory folder;
  // Rows whose fields are drawn from all that quotes can do; the majority are lines.
  const char* fields[] = {
      "",           "x",          "5\" disk",     "\"a;b\"", "\"\"",     "\"two\nlines\"",
      "\"\n\r\n\"", "\"\"\"\n\"", "\"x\n;\"\"\"", "x \"",    "\"\"\"\"", "-1e3"};
  std::vector<NumberedRow> expected;
  std::string text;
  int64_t line = 1;
  uint32_t draw = 1;
  for (int i = 0; i < 400; ++i) {
    std::string row;
    for (int k = 0; k < 3; ++k) {
      draw = draw * 1664525 + 1013904223;
      row += std::string(k > 0 ? ";" : "") + fields[(draw >> 20) % (i % 3 == 0 ? 12 : 5)];
    }
    if (i % 2 == 0) row += "\r";
    expected.emplace_back(row, line);
    line += 1 + std::count(row.begin(), row.end(), '\n');
    text += row + (i < 399 ? "\n" : "");
  }
  const TextForm form{.separator = ';', .quotes = true};
  test::write_text(folder / "plain", text);
  test::write_gzip(folder / "gzip", "\xEF\xBB\xBF" + text);
  for (const char* name : {"plain", "gzip"})
    for (const size_t capacity : {size_t{40}, size_t{41}, size_t{64}, size_t{500}, size_t{100000}})
      CHECK(numbered_rows(folder / name, form, capacity) == expected);
  CHECK(numbered_rows(folder / "plain", {.separator = ';'}, 500).size() ==
        static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
}

TEST_CASE("blanks may stand before an opening quote where they are trimmed") {
  TemporaryDirectory folder;
  test::write_text(folder / "text", "a, \t\"b\nc\" ,d\n \"e\nx\",f\n");
  const TextForm trimmed{.quotes = true, .trim = true};
  CHECK(numbered_rows(folder / "text", trimmed, 100) ==
        std::vector<NumberedRow>{{"a, \t\"b\nc\" ,d", 1}, {" \"e\nx\",f", 3}});
  CHECK(numbered_rows(folder / "text", {.quotes = true}, 100).size() == 4);
  // A blank that separates is none to be trimmed.
  CHECK(numbered_rows(folder / "text", {.separator = '\t', .quotes = true, .trim = true}, 100) ==
        numbered_rows(folder / "text", trimmed, 100));
}

TEST_CASE("comments have no quotes, wherever blocks are cut") {
  TemporaryDirectory folder;
  const std::string lines[] = {"a,\"b\nc\"", "# by a tool, \"v2", "\"d\n# no comment, \"\",e\n\",f",
                               "#",          "#\"x\"\"",          "g,h # \"i",
                               "//, \"",     "\"j\"\"\n//\",k"};
  std::vector<NumberedRow> expected;
  std::string text;
  int64_t number = 1;
  for (int i = 0; i < 100; ++i) {
    const std::string& row = lines[i * 7 % 8];
    expected.emplace_back(row, number);
    number += 1 + std::count(row.begin(), row.end(), '\n');
    text += row + "\n";
  }
  test::write_text(folder / "text", text);
  const TextForm form{.quotes = true, .trim = true, .comments = {"#", "//"}};
  for (const size_t capacity : {size_t{32}, size_t{45}, size_t{64}, size_t{500}, size_t{100000}})
    CHECK(numbered_rows(folder / "text", form, capacity) == expected);
  test::write_text(folder / "last", "a,b\n# \"");
  CHECK(numbered_rows(folder / "last", form, 100) ==
        std::vector<NumberedRow>{{"a,b", 1}, {"# \"", 2}});
}

TEST_CASE("a quote that is not closed is an error with its line") {
  TemporaryDirectory folder;
  const auto error = [&](const std::string& text, size_t capacity) {
    test::write_text(folder / "open", text);
    return test::message_of<DataError>(
        [&] { numbered_rows(folder / "open", {.quotes = true}, capacity); });
  };
  const std::string rows = "a,b\n\"c\nd\",e\n";
  CHECK(error(rows + "\"\n\",\"x,y\nz,1\n", 1000) ==
        folder /
            "open:5: expected a closing quote before the end of the file, found none for "
            "\"\"x,y\\x0az,1\\x0a\"");
  CHECK(error(rows + "1,\"x", 1000) ==
        folder /
            "open:4: expected a closing quote before the end of the file, found none for "
            "\"\"x\\x0a\"");
  test::check_contains(error(rows + "1,2\n3,\"x\n" + numbered_lines(100), 50),
                       {"open:5: expected a closing quote in a row of at most 50 bytes"});
  test::check_contains(error(rows + "\"1\n2\"" + std::string(50, 'x') + "\n", 50),
                       {"open:4: expected a row of at most 50 bytes"});
}

TEST_CASE("several gzip members and zstd frames are one text") {
  TemporaryDirectory folder;
  const std::string a = numbered_lines(3000), b = "in the middle of a l", c = "ine\n", d = "last";
  std::string gzip;
  for (const auto& part : {a, b, std::string(), c, d}) {
    test::write_gzip(folder / "part", part);
    gzip += test::read_text(folder / "part");
  }
  test::write_text(folder / "gzip", gzip);
  test::write_text(folder / "padded", gzip + std::string(512, '\0'));
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  std::string zstd = skippable;
  for (const auto& part : {a, b, std::string(), c, d}) zstd += test::zstd_frame(part) + skippable;
  test::write_text(folder / "zstd", zstd);
  for (const char* name : {"gzip", "padded", "zstd"})
    for (const size_t capacity : {size_t{30}, size_t{1000}, size_t{100000}}) {
      InputFile file(folder / name);
      CHECK(text_of(file, capacity) == a + b + c + d + "\n");
      CHECK(file.bytes_read() == static_cast<int64_t>((a + b + c + d).size()));
      CHECK(file.stored_bytes_read() == file.stored_bytes());
    }
}

TEST_CASE("a compressed file cut at any byte is an error, not a shorter file") {
  TemporaryDirectory folder;
  const std::string text = numbered_lines(300);
  test::write_gzip(folder / "whole.gz", text);
  test::write_zstd(folder / "whole.zst", text + text);
  const std::string kinds[] = {"gzip", "zstd"};
  const std::string packed[] = {test::read_text(folder / "whole.gz"),
                                test::read_text(folder / "whole.zst")};
  for (const size_t kind : {0, 1}) {
    // From 4 bytes on it is known what it is; after a member, what follows may not be cut either.
    for (const std::string& before : {std::string(), packed[kind]})
      for (size_t size = before.empty() ? 4 : 1; size < packed[kind].size();
           size += 1 + packed[kind].size() / 40) {
        INFO(kinds[kind] << " cut after " << size << " bytes");
        test::write_text(folder / "cut", before + packed[kind].substr(0, size));
        const std::string message =
            test::message_of<FileError>([&] { text_of(folder / "cut", 1000); });
        test::check_contains(message, {"cut: cannot read at byte ", "compressed file",
                                       "the " + kinds[kind] + " stream is cut short"});
      }
  }
}

TEST_CASE("damage in a compressed file is an error with its place") {
  TemporaryDirectory folder;
  const std::string text = numbered_lines(20000);
  test::write_gzip(folder / "whole.gz", text);
  test::write_zstd(folder / "whole.zst", text);
  for (const char* name : {"whole.gz", "whole.zst"}) {
    std::string packed = test::read_text(folder / name);
    test::write_text(folder / "tail", packed + "tail");
    test::check_contains(test::message_of<FileError>([&] { text_of(folder / "tail"); }),
                         {fmt::format("tail: cannot read at byte {} ", text.size())});
    for (size_t i = packed.size() / 2; i < packed.size() / 2 + 40; ++i)
      packed[i] = static_cast<char>(~packed[i]);
    test::write_text(folder / "bad", packed);
    test::check_contains(test::message_of<FileError>([&] { text_of(folder / "bad"); }),
                         {"bad: cannot read at byte ", "compressed file"});
  }
}

TEST_CASE("a gzip header may have every field and lie anywhere between two buffers") {
  TemporaryDirectory folder;
  constexpr size_t kBuffer = size_t{1} << 20;
  const std::string a = numbered_lines(30), b = numbered_lines(50);
  const std::string before = test::gzip_member_with_fields(a);
  const std::string after = test::gzip_member_with_fields(b);
  for (size_t inside = 0; inside < 60; ++inside) {
    INFO(inside << " bytes of the member in the first buffer");
    const std::string zeros(kBuffer - before.size() - inside, '\0');
    test::write_text(folder / "gzip", before + zeros + after);
    CHECK(text_of(folder / "gzip", 100000) == a + b);
    test::write_text(folder / "cut", before + zeros + after.substr(0, inside + 20));
    CHECK(test::message_of<FileError>([&] {
            text_of(folder / "cut", 100000);
          }).ends_with("the gzip stream is cut short"));
  }
}

TEST_CASE("what is wrong with a gzip member is said") {
  TemporaryDirectory folder;
  const std::string text = numbered_lines(100), good = test::gzip_member_with_fields(text);
  const auto reason_of = [&](std::string packed, size_t at, int bits) {
    packed[at] = static_cast<char>(packed[at] ^ bits);
    // After a good member, so that it is known to be gzip.
    test::write_text(folder / "bad", good + packed);
    const std::string message = test::message_of<FileError>([&] { text_of(folder / "bad"); });
    return message.substr(message.rfind(": ") + 2);
  };
  const auto reason = [&](size_t at, int bits) { return reason_of(good, at, bits); };
  CHECK(reason(0, 1) == "incorrect header check");
  CHECK(reason(1, 1) == "incorrect header check");
  CHECK(reason(2, 1) == "unknown compression method");
  test::write_gzip(folder / "plain", text);
  CHECK(reason_of(test::read_text(folder / "plain"), 3, 0x80) == "unknown header flags set");
  CHECK(reason(15, 1) == "header crc mismatch");
  CHECK(reason(good.size() - 5, 1) == "incorrect data check");
  CHECK(reason(good.size() - 1, 1) == "incorrect data check");
  // All text before the damage has been handed out, and the error comes again.
  std::string packed = good;
  packed[good.size() - 5] ^= 1;
  test::write_text(folder / "bad", packed);
  const auto stream = open_input_stream(folder / "bad");
  std::string got(text.size(), ' ');
  CHECK(stream->read(got.data(), got.size()) == got.size());
  CHECK(got == text);
  for (int i = 0; i < 2; ++i)
    CHECK(test::message_of<FileError>([&] {
            stream->read(got.data(), 1);
          }).find(fmt::format("cannot read at byte {} ", text.size())) != std::string::npos);
}

TEST_CASE("standard input may be a pipe or a file, compressed too") {
  TemporaryDirectory folder;
  const std::string text = numbered_lines(700);
  test::write_text(folder / "plain", text);
  test::write_gzip(folder / "gzip", text);
  test::write_zstd(folder / "zstd", text);
  for (const char* name : {"plain", "gzip", "zstd"})
    for (const bool as_pipe : {false, true}) {
      const StandardInput input(folder / name, as_pipe);
      InputFile file("-");
      CHECK(file.name() == "standard input");
      CHECK(text_of(file, 512) == text);
      CHECK(file.stored_bytes() == 0);
    }
}

TEST_CASE("a named pipe is opened once, whoever comes first, and read to its end", "[threads]") {
  TemporaryDirectory folder;
  const std::string path = folder / "fifo", text = numbered_lines(300);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  test::write_text(folder / "plain", text);
  test::write_gzip(folder / "gzip", text);
  for (const char* name : {"plain", "gzip"})
    for (const bool slow : {false, true}) {
      std::thread writer([&] {
        const std::string bytes = test::read_text(folder / name);
        if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::ofstream(path) << bytes.substr(0, 3) << std::flush << bytes.substr(3);
      });
      InputFile file(path);
      CHECK(text_of(file, 512) == text);
      CHECK(file.stored_bytes() == 0);
      writer.join();
    }
}

TEST_CASE("a signal ends the wait for a pipe that nobody writes to") {
  TemporaryDirectory folder;
  const std::string path = folder / "fifo";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const InterruptGuard guard;
  std::raise(SIGTERM);
  CHECK(test::message_of<InterruptedError>([&] { InputFile file(path); }) ==
        path + ": interrupted while waiting for more of it");
}

TEST_CASE("binary data is no text, and its bytes are not printed") {
  TemporaryDirectory folder;
  const std::string binary("\x01\xff\x80\0\n\0\0", 7);
  test::write_text(folder / "records", binary);
  test::write_gzip(folder / "gzip", binary);
  for (const char* name : {"records", "gzip"})
    CHECK(test::message_of<DataError>([&] { text_of(folder / name); })
              .starts_with(folder / name + ": expected lines of text, found binary data (byte 3 is "
                                           "0): \"\\x01\\xff\\x80\\x00\\x0a\\x00\\x00\";"));
}

TEST_CASE("what cannot be opened is an error") {
  TemporaryDirectory folder;
  test::check_contains(test::message_of<FileError>([&] { InputFile file(folder / "none"); }),
                       {"none: cannot open: No such file"});
  test::check_contains(test::message_of<FileError>([&] { InputFile file(folder.path()); }),
                       {"expected a file, found a directory"});
}

}  // namespace
}  // namespace hlite::prep
