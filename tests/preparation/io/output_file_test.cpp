#include "hugectr_lite/preparation/io/output_file.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;

TEST_CASE("a file gets its name on commit and never without it") {
  TemporaryDirectory folder;
  {
    OutputFile file(folder / "a");
    file.write("123");
    file.finish();
    CHECK(test::read_text(file.temporary_path()) == "123");
  }
  CHECK(folder.entries() == 0);
  test::write_text(folder / "a", "old");
  {
    OutputFile file(folder / "a");
    const std::string big(3 << 20, 'x');
    file.write(big);
    file.write("end");
    CHECK(file.bytes() == (3 << 20) + 3);
    CHECK(test::read_text(folder / "a") == "old");
    file.commit();
    CHECK((test::read_text(folder / "a") == big + "end"));
  }
  CHECK(folder.entries() == 1);
}

TEST_CASE("the checksum is XXH3 over all bytes, however they were cut") {
  TemporaryDirectory folder;
  OutputFile whole(folder / "a"), pieces(folder / "b"), empty(folder / "c");
  whole.write("hugectr_lite");
  pieces.write("huge");
  pieces.write("ctr_lite");
  CHECK(whole.xxh3() == pieces.xxh3());
  CHECK(whole.xxh3() != empty.xxh3());
  CHECK(empty.xxh3() == "2d06800538d394c2");  // XXH3's published value for no bytes, seed 0
}

TEST_CASE("a file that is saved is gone on with at any byte") {
  TemporaryDirectory folder;
  std::string text;
  for (int i = 0; i < 900000; ++i) text += std::to_string(i);
  const std::string_view all(text);
  for (const size_t kept : {size_t{0}, size_t{1}, size_t{4096}, size_t{4200000}, text.size()}) {
    {
      OutputFile file(folder / "a", folder / "part", 0);
      file.write(all.substr(0, kept));
      file.save();
      CHECK((test::read_text(folder / "part") == text.substr(0, kept)));
      file.write(all.substr(kept, 10));
      file.save();
    }
    OutputFile file(folder / "a", folder / "part", static_cast<int64_t>(kept));
    const auto bytes = std::as_bytes(std::span(all.substr(0, kept)));
    file.repeat(bytes.first(kept / 3));
    file.repeat(bytes.subspan(kept / 3));
    file.write(all.substr(kept));
    file.commit();
    CHECK((test::read_text(folder / "a") == text));
    OutputFile whole(folder / "b");
    whole.write(all);
    CHECK(file.xxh3() == whole.xxh3());
  }
  test::write_text(folder / "part", "abc");
  test::check_contains(
      test::message_of<FileError>([&] { OutputFile(folder / "a", folder / "part", 4); }),
      {"part: expected at least 4 bytes, found 3"});
}

TEST_CASE("a disk that is full is an error that names the file; no file remains") {
  TemporaryDirectory folder;
  const std::string message = test::message_of<FileError>([&] {
    const test::FileSizeLimit limit(1 << 20);
    OutputFile file(folder / "a");
    file.write(std::string(5 << 20, 'x'));
    file.commit();
  });
  test::check_contains(message, {folder / "a.tmp.", ": cannot write", "File too large"});
  CHECK(folder.entries() == 0);
}

TEST_CASE("a folder that does not exist is an error") {
  TemporaryDirectory folder;
  test::check_contains(test::message_of<FileError>([&] { OutputFile file(folder / "none/a"); }),
                       {"none/a.tmp.", ": cannot create: No such file"});
  test::write_text(folder / "file", "");
  test::check_contains(test::message_of<FileError>([&] { make_folder(folder / "file/sub"); }),
                       {"file/sub: cannot create the folder"});
}

}  // namespace
}  // namespace hlite::prep
