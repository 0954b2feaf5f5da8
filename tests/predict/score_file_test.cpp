#include "hugectr_lite/predict/score_file.h"

#include <cstring>
#include <limits>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/numpy_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::predict {
namespace {
const std::vector<float> kFirst{0.1f, 1, 0}, kSecond{std::numeric_limits<float>::denorm_min()};

void write(const std::string& path) {
  const auto file = open_score_file(path);
  file->add(kFirst);
  file->add({});
  file->add(kSecond);
  file->close();
}

TEST_CASE("scores are written as text that reads back as the same floats") {
  const test::TemporaryDirectory folder;
  write(folder / "s.csv");
  CHECK(test::read_text(folder / "s.csv") == "score\n0.1\n1\n0\n1e-45\n");
}

TEST_CASE("columns may stand in front of the scores of text, not of an array") {
  const test::TemporaryDirectory folder;
  const std::vector<std::string> extra_columns{"a,1", "\"b\n\",2", ",3"};
  const auto file = open_score_file(folder / "s.csv");
  file->set_extra_columns("user,item");
  file->add(kFirst, extra_columns);
  file->close();
  CHECK(test::read_text(folder / "s.csv") == "user,item,score\na,1,0.1\n\"b\n\",2,1\n,3,0\n");
  CHECK(takes_columns("-"));
  CHECK_FALSE(takes_columns("s.npy"));
  // Without a sample there are names alone.
  const auto empty = open_score_file(folder / "empty.csv");
  empty->set_extra_columns("user");
  empty->close();
  CHECK(test::read_text(folder / "empty.csv") == "user,score\n");
}

TEST_CASE("scores are written as an array of NumPy") {
  const test::TemporaryDirectory folder;
  write(folder / "s.npy");
  const ReadFile file(folder / "s.npy");
  const prep::NumpyHeader header = prep::read_numpy_header(file);
  CHECK(header.type == "<f4");
  REQUIRE(header.shape == std::vector<int64_t>{4});
  std::vector<float> scores(4);
  file.read(header.data_offset, std::as_writable_bytes(std::span(scores)));
  CHECK(scores == std::vector<float>{0.1f, 1, 0, kSecond[0]});
}

TEST_CASE("a file of scores is there complete or not at all") {
  const test::TemporaryDirectory folder;
  for (const char* name : {"s.csv", "s.npy"}) {
    open_score_file(folder / name)->add(kFirst);
    CHECK(folder.entries() == 0);
  }
  test::check_contains(test::message_of<ConfigError>([] { open_score_file("scores.txt"); }),
                       {"--out", ".csv or .npy", "found scores.txt"});
  CHECK_THROWS_AS(open_score_file(folder / "none/s.csv"), FileError);
}

}  // namespace
}  // namespace hlite::predict
