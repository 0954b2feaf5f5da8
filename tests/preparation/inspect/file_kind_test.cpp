#include "hugectr_lite/preparation/inspect/file_kind.h"

#include <sys/stat.h>
#include <zlib.h>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "tests/preparation/inspect/small_data.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::SmallData;
using test::TemporaryDirectory;

FileFacts detect(const TemporaryDirectory& folder, const std::string& bytes) {
  test::write_text(folder / "file", bytes);
  return detect_file(folder / "file");
}

TEST_CASE("kinds of files are recognized by their contents") {
  const TemporaryDirectory folder;
  using Kind = FileKind;
  const struct {
    std::string bytes;
    Kind kind;
  } cases[] = {
      {"", Kind::kEmpty},
      {SmallData().criteo_text(), Kind::kCriteoTsv},
      {SmallData{.samples = 1}.criteo_text(), Kind::kCriteoTsv},
      {"a,b,c\n1,2,3\n4,5,6\n", Kind::kText},
      {"some words\nwithout columns, or so\n", Kind::kText},
      {SmallData().raw(), Kind::kBinary},
      {SmallData().norm(), Kind::kNorm},
      {SmallData{.sum = false}.norm(), Kind::kNorm},
      {SmallData().norm().substr(0, 500), Kind::kNorm},
      {"2\na.norm\nb.norm\n", Kind::kNormList},
      {"\x93NUMPY\x01", Kind::kNumpy},
      {"PAR1xxxx", Kind::kParquet},
      {"PK\x03\x04zip", Kind::kZip},
      {test::small_data_config(), Kind::kConfig},
      {"{\"x\": 1}", Kind::kJson},
      {data::Manifest().to_json(), Kind::kManifest},
      {std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}        data", 28), Kind::kSafetensors},
  };
  for (const auto& c : cases) {
    INFO(c.bytes.substr(0, 30));
    const FileFacts file = detect(folder, c.bytes);
    CHECK(file.kind == c.kind);
    CHECK(file.bytes == static_cast<int64_t>(c.bytes.size()));
    CHECK_FALSE(file.why.empty());
    CHECK_FALSE(describe(file).empty());
  }
}

TEST_CASE("compressed files are looked into") {
  const TemporaryDirectory folder;
  const std::string text = SmallData().criteo_text();
  gzFile gz = gzopen((folder / "day.gz").c_str(), "wb");
  REQUIRE(gzwrite(gz, text.data(), static_cast<unsigned>(text.size())) > 0);
  gzclose(gz);
  const FileFacts file = detect_file(folder / "day.gz");
  CHECK(file.kind == FileKind::kCriteoTsv);
  CHECK(file.compression == Compression::kGzip);
  CHECK(describe(file) == "Criteo TSV, gzip");
}

TEST_CASE("damaged headers are kept as the problem") {
  const TemporaryDirectory folder;
  const FileFacts norm = detect(folder, SmallData().norm().substr(0, 500));
  CHECK_FALSE(norm.problem.empty());
  CHECK(detect(folder, SmallData().norm()).problem.empty());
}

TEST_CASE("folders and missing files") {
  const TemporaryDirectory folder;
  test::check_contains(test::message_of<FileError>([&] { detect_file(folder.path()); }),
                       {"folder with neither *.parquet nor a checkpoint"});
  test::write_text(folder / "model.safetensors", "x");
  CHECK(detect_file(folder.path()).kind == FileKind::kCheckpoint);
  CHECK_THROWS_AS(detect_file(folder / "none"), FileError);
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  test::check_contains(test::message_of<FileError>([&] { detect_file(folder / "fifo"); }),
                       {"a pipe, which cannot be read twice"});
}

}  // namespace
}  // namespace hlite::prep
