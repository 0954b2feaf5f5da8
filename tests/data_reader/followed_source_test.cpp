#include "data_reader/followed_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "data_reader/no_samples.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::data {
namespace {

using Next = FollowedSource::Next;

// A folder of files whose samples are known.
struct FolderFixture : test::RawFixture {
  FolderFixture() : RawFixture(50) {
    std::filesystem::create_directory(dir / "days");
    data.async_param = test::async_param(1, 2, 512, 2, 512);
  }
  // The first `samples` of them.
  void put(const std::string& name, int64_t samples) const {
    const std::string text = test::raw_text(words);
    test::write_text(dir / ("days/" + name),
                     text.substr(0, text.size() / 50 * static_cast<size_t>(samples)));
  }
  [[nodiscard]] FollowedSource follow(int64_t batch = 8) const {
    return {data, dir / "days", batch, shape.slot_rows, {}};
  }
};

TEST_CASE("files come in the order of their names, each once, until _END", "[threads]") {
  const FolderFixture folder;
  FollowedSource source = folder.follow();
  CHECK(source.poll().next == Next::kNothing);
  CHECK(source.at_end_of_file());
  CHECK(source.memory().empty());
  for (const char* other : {"a.tmp", ".b.bin", "_c.bin", "d.txt", "e.json"}) folder.put(other, 3);
  CHECK(source.poll().next == Next::kNothing);
  folder.put("b.bin", 20);
  folder.put("c.bin", 7);
  REQUIRE(source.poll().next == Next::kFile);
  CHECK(source.poll().file == "b.bin");  // until it is opened
  source.open("b.bin");
  CHECK(source.samples() == 20);
  std::vector<int64_t> sizes;
  for (; !source.at_end_of_file(); sizes.push_back(source.next().size))
    CHECK(source.position() == std::ssize(sizes));
  CHECK(sizes == std::vector<int64_t>{8, 8, 4});
  folder.put("bb.bin", 9);  // comes in time: before c
  CHECK(source.poll().file == "bb.bin");
  source.open("bb.bin");
  while (!source.at_end_of_file()) source.next();
  test::write_text(folder.dir / "days/_END", "");
  CHECK(source.poll().file == "c.bin");  // the end is that of all files
  source.open("c.bin");
  CHECK(source.next().size == 7);
  CHECK(source.at_end_of_file());
  CHECK(source.poll().next == Next::kEnd);
  CHECK(source.bytes_read() >= 36 * (folder.bytes() / 50));
}

TEST_CASE("a file whose turn is over is reported once") {
  const FolderFixture folder;
  folder.put("a.bin", 3);
  folder.put("m.bin", 3);
  const test::LogCapture log;
  FollowedSource source = folder.follow();
  source.reopen("m.bin", 1, 1);  // after a resume: a.bin was read long ago
  CHECK(source.at_end_of_file());
  CHECK(source.position() == 1);
  CHECK(source.poll().next == Next::kNothing);
  CHECK(log.text().empty());
  folder.put("b.bin", 3);
  CHECK(source.poll().next == Next::kNothing);
  CHECK(source.poll().next == Next::kNothing);
  CHECK(log.count("b.bin: it came after m.bin had been read") == 1);
}

TEST_CASE("a file is opened again where a checkpoint was saved", "[threads]") {
  const FolderFixture folder;
  folder.put("a.bin", 20);
  FollowedSource source = folder.follow();
  source.reopen("a.bin", 2, 3);
  CHECK(source.position() == 2);
  CHECK(source.next().first_sample == 16);
  CHECK(source.at_end_of_file());
  FollowedSource other = folder.follow();
  test::check_contains(test::message_of<DataError>([&] { other.reopen("a.bin", 2, 4); }),
                       {"a.bin", "expected 4 batches", "found 3"});
  CHECK_THROWS_AS(folder.follow().reopen("none.bin", 2, 4), Error);
  folder.follow().reopen("none.bin", 4, 4);  // nothing is left of it
}

TEST_CASE("a file without samples is passed over", "[threads]") {
  const FolderFixture folder;
  for (const char* name : {"a.bin", "c.bin"}) folder.put(name, 0);
  folder.put("b.bin", 20);
  FollowedSource source = folder.follow();
  CHECK_THROWS_AS(source.open("a.bin"), NoSamplesError);
  source.pass_over("a.bin", source.state_of("a.bin"));
  CHECK(source.at_end_of_file());
  CHECK(source.position() == 0);
  CHECK(source.poll().file == "b.bin");
  source.open("b.bin");
  while (!source.at_end_of_file()) source.next();
  const int64_t bytes = source.bytes_read();
  source.pass_over("c.bin", source.state_of("c.bin"));
  CHECK(source.file() == "c.bin");
  CHECK(source.at_end_of_file());
  CHECK(source.bytes_read() == bytes);
  CHECK(source.poll().next == Next::kNothing);
  folder.follow().reopen("c.bin", source.position(), source.file_batches());
}

TEST_CASE("what is no file is reported once and passed over") {
  const FolderFixture folder;
  REQUIRE(mkfifo((folder.dir / "days/a.bin").c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.dir / "days/b.bin");
  std::filesystem::create_symlink("nowhere", folder.dir / "days/c.bin");
  const test::LogCapture log;
  FollowedSource source = folder.follow();
  for (int i = 0; i < 2; ++i) CHECK(source.poll().next == Next::kNothing);
  folder.put("d.bin", 3);
  CHECK(source.poll().file == "d.bin");
  for (const char* name : {"a.bin", "b.bin", "c.bin"})
    CHECK(log.count(std::string(name) + ": expected a file") == 1);
}

TEST_CASE("a file that is replaced after its turn is reported, also one of the same size",
          "[threads]") {
  const FolderFixture folder;
  folder.put("a.bin", 8);
  folder.put("b.bin", 8);
  const test::LogCapture log;
  FollowedSource source = folder.follow();
  for (const char* name : {"a.bin", "b.bin"}) {
    CHECK(source.poll().file == name);
    source.open(name);
    source.next();
  }
  CHECK(source.poll().next == Next::kNothing);
  CHECK(log.text().empty());
  folder.put(".new", 8);
  std::filesystem::rename(folder.dir / "days/.new", folder.dir / "days/a.bin");
  for (int i = 0; i < 2; ++i) CHECK(source.poll().next == Next::kNothing);
  CHECK(log.count("a.bin: it was replaced or written to after it had its turn") == 1);
  folder.put("b.bin", 9);  // in its place
  for (int i = 0; i < 2; ++i) CHECK(source.poll().next == Next::kNothing);
  CHECK(log.count("b.bin: it was replaced or written to after it had its turn") == 1);
}

TEST_CASE("replaced keys of all files count", "[threads]") {
  FolderFixture folder;
  folder.data.key_policy.kind = config::KeyPolicy::kClamp;
  const size_t width = folder.words.size() / 50;
  for (size_t last = width - 1; last < folder.words.size(); last += width)
    folder.words[last] = 1'000'000;  // a key
  FollowedSource source = folder.follow();
  int64_t of_one = 0;
  for (const int64_t files : {1, 2, 3}) {
    const std::string name = std::to_string(files) + ".bin";
    folder.put(name, 8);
    source.open(name);
    source.next();
    if (files == 1) of_one = source.replaced_keys();
    CHECK(source.replaced_keys() == files * of_one);
  }
  CHECK(of_one > 0);
}

TEST_CASE("what is no folder is not followed") {
  const FolderFixture folder;
  const auto message = [&](const std::string& path) {
    return test::message_of<DataError>(
        [&] { FollowedSource(folder.data, path, 8, folder.shape.slot_rows, {}); });
  };
  test::check_contains(message(folder.path), {"f.bin", "a folder to follow", "a file"});
  test::check_contains(message(folder.dir / "none"), {"none", "a folder to follow", "nothing"});
}

}  // namespace
}  // namespace hlite::data
