// What the files of each output format hold.
#include <algorithm>
#include <functional>

#include "tests/preparation/engine/written_split.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::close;
using test::GeneratedRows;
using test::hash_of;
using test::keys_of;
using test::kSizes;
using test::log1p_of;
using test::make_rows;
using test::positives;
using test::put;
using test::read_text;
using test::take;
using test::TemporaryDirectory;
using test::written;

TEST_CASE("raw files hold the words of the rows", "[threads]") {
  for (const int64_t count : {0, 1, 2, 1009})
    for (const bool floats : {false, true})
      for (const int64_t memory : {int64_t{1}, int64_t{20000}, int64_t{1} << 24})
        for (const int threads : {1, 3}) {
          const GeneratedRows rows = make_rows(count, floats);
          std::string expected;
          for (int64_t row = 0; row < count; ++row) {
            auto words = rows.words(row);
            if (floats) words[0] = words[0] != 0 ? 0x3f800000u : 0u;
            for (const uint32_t word : words) put(expected, word);
          }
          const auto result = written(rows, {}, threads, memory, "val");
          CHECK(read_text(result->folder / "val.bin") == expected);
          CHECK(result->folder.entries() == 1);
          const auto& file = result->split.file;
          CHECK(file.role == "val");
          CHECK(file.name == "val.bin");
          CHECK(file.rows == count);
          CHECK(file.positives == positives(rows));
          CHECK(file.bytes == static_cast<int64_t>(expected.size()));
          CHECK(file.xxh3 == hash_of(expected));
        }
}

TEST_CASE("rows without dense values or without keys", "[threads]") {
  for (const auto& [dense, slots] : {std::pair{0, 3}, std::pair{2, 0}, std::pair{0, 0}}) {
    const GeneratedRows rows({.dense = dense, .slots = slots}, 101,
                             {kSizes.begin(), kSizes.begin() + slots});
    for (const auto format : {OutputFormat::kRaw, OutputFormat::kNorm}) {
      TemporaryDirectory folder;
      ThreadPool pool(2);
      OutputOptions options;
      options.folder = folder.path();
      options.format = format;
      const WrittenSplit split = write_split(rows, "train", rows.slot_sizes(), options, {}, pool);
      CHECK(split.file.rows == 101);
      CHECK(split.file.bytes >= 101 * 4 * (1 + dense + slots));
    }
  }
}

TEST_CASE("multi-hot raw files hold logarithms and lists", "[threads]") {
  const std::vector<int64_t> hotness = {2, 1, 5};
  const MultiHot lists(hotness, kSizes, 9);
  for (const bool floats : {false, true}) {
    const GeneratedRows rows = make_rows(313, floats);
    const auto result = written(rows, {.multi_hot = "2,1,5", .seed = 9}, 2, 30000);
    const std::string bytes = read_text(result->folder / "train.bin");
    REQUIRE(bytes.size() == 313 * 4 * (1 + 2 + 8));
    size_t at = 0;
    for (int64_t row = 0; row < 313; ++row) {
      REQUIRE(take<int32_t>(bytes, at) == static_cast<int32_t>(rows.label(row)));
      for (int k = 0; k < 2; ++k) {
        const float value = take<float>(bytes, at);
        if (floats)
          REQUIRE(value == rows.real(row, k));
        else
          REQUIRE(close(value, log1p_of(rows.integer(row, k))));
      }
      for (const uint32_t key : keys_of(rows, row, &lists))
        REQUIRE(take<uint32_t>(bytes, at) == key);
    }
    CHECK(result->split.file.positives == positives(rows));
  }
}

TEST_CASE("a record of the DLRM-DCNv2 recipe has 912 bytes") {
  const GeneratedRows rows({.dense = 13, .slots = 26}, 3, std::vector<int64_t>(26, 50));
  TemporaryDirectory folder;
  ThreadPool pool(1);
  OutputOptions options;
  options.folder = folder.path();
  options.multi_hot = "dcnv2";
  CHECK(write_split(rows, "train", rows.slot_sizes(), options, {}, pool).file.bytes == 3 * 912);
}

// Reads a Norm file from the description of the format.
struct NormRow {
  float label;
  std::vector<float> dense;
  std::vector<std::vector<uint32_t>> keys;
};
std::vector<NormRow> parse_norm(const std::string& bytes, bool sum, int slots) {
  size_t at = 0, block_begin = 0;
  int32_t block_bytes = 0;
  const auto begin = [&] {
    if (sum) block_bytes = take<int32_t>(bytes, at);
    block_begin = at;
  };
  const auto end = [&] {
    if (!sum) return;
    REQUIRE(at - block_begin == static_cast<size_t>(block_bytes));
    uint8_t total = 0;
    for (size_t i = block_begin; i < at; ++i)
      total = static_cast<uint8_t>(total + static_cast<uint8_t>(bytes[i]));
    REQUIRE(take<uint8_t>(bytes, at) == total);
  };
  begin();
  REQUIRE(take<int64_t>(bytes, at) == (sum ? 1 : 0));
  const auto records = take<int64_t>(bytes, at);
  REQUIRE(take<int64_t>(bytes, at) == 1);
  const auto dense = take<int64_t>(bytes, at);
  REQUIRE(take<int64_t>(bytes, at) == slots);
  for (int i = 0; i < 3; ++i) REQUIRE(take<int64_t>(bytes, at) == 0);
  end();
  std::vector<NormRow> rows;
  for (int64_t r = 0; r < records; ++r) {
    begin();
    NormRow row{.label = take<float>(bytes, at), .dense = {}, .keys = {}};
    for (int64_t d = 0; d < dense; ++d) row.dense.push_back(take<float>(bytes, at));
    for (int s = 0; s < slots; ++s) {
      auto& keys = row.keys.emplace_back();
      for (int32_t nnz = take<int32_t>(bytes, at); nnz > 0; --nnz)
        keys.push_back(take<uint32_t>(bytes, at));
    }
    end();
    rows.push_back(row);
  }
  CHECK(at == bytes.size());
  return rows;
}

TEST_CASE("Norm files, several to a split, hold what the rows hold", "[threads]") {
  for (const int64_t count : {0, 1, 100, 101, 1000})
    for (const bool sum : {true, false})
      for (const bool floats : {false, true})
        for (const char* multi_hot : {"", "2,1,5"}) {
          const std::vector<int64_t> hotness =
              *multi_hot ? std::vector<int64_t>{2, 1, 5} : std::vector<int64_t>{1, 1, 1};
          const MultiHot lists(hotness, kSizes, 4);
          const GeneratedRows rows = make_rows(count, floats);
          const auto result = written(rows,
                                      {.format = OutputFormat::kNorm,
                                       .multi_hot = multi_hot,
                                       .norm_sum = sum,
                                       .norm_rows_per_file = 100,
                                       .seed = 4},
                                      3, count * 20);
          const int64_t files = std::max<int64_t>((count + 99) / 100, 1);
          std::string list = std::to_string(files) + "\n", digits;
          int64_t row = 0, bytes = 0;
          for (int64_t f = 0; f < files; ++f) {
            const std::string name = fmt::format("train_norm/{:05}.norm", f);
            list += name + "\n";
            const std::string part = read_text(result->folder / name);
            bytes += static_cast<int64_t>(part.size());
            digits += hash_of(part);
            const auto parsed = parse_norm(part, sum, 3);
            CHECK(static_cast<int64_t>(parsed.size()) == std::min<int64_t>(count - row, 100));
            for (const NormRow& got : parsed) {
              REQUIRE(got.label == static_cast<float>(rows.label(row)));
              for (int k = 0; k < 2; ++k) {
                const float value = got.dense[static_cast<size_t>(k)];
                REQUIRE((floats ? value == rows.real(row, k)
                                : close(value, log1p_of(rows.integer(row, k)))));
              }
              std::vector<uint32_t> keys;
              for (size_t s = 0; s < 3; ++s) {
                REQUIRE(static_cast<int64_t>(got.keys[s].size()) == hotness[s]);
                keys.insert(keys.end(), got.keys[s].begin(), got.keys[s].end());
              }
              REQUIRE(keys == keys_of(rows, row, &lists));
              ++row;
            }
          }
          CHECK(row == count);
          CHECK(read_text(result->folder / "train_list.txt") == list);
          CHECK(result->split.file.name == "train_list.txt");
          CHECK(result->split.file.bytes == bytes);
          CHECK(result->split.file.xxh3 == (files == 1 ? digits : hash_of(digits)));
        }
}

TEST_CASE("the manifest describes the format") {
  const auto described = [](OutputOptions options, bool floats) {
    data::Manifest manifest;
    describe_output(options, {.dense = 2, .slots = 3, .dense_is_float = floats}, manifest);
    return manifest;
  };
  const std::vector<int64_t> one = {1, 1, 1}, lists = {2, 1, 5};
  for (const bool floats : {false, true}) {
    data::Manifest m = described({}, floats);
    CHECK(m.format == "raw");
    CHECK(m.float_label == floats);
    CHECK(m.float_dense == floats);
    CHECK(m.dense_dim == 2);
    CHECK(m.hotness == one);
    m = described({.multi_hot = "2,1,5"}, floats);
    CHECK(m.format == "multi_hot_raw");
    CHECK_FALSE(m.float_label);
    CHECK(m.float_dense);
    CHECK(m.hotness == lists);
    m = described({.format = OutputFormat::kNorm}, floats);
    CHECK(m.format == "norm");
    CHECK((m.float_label && m.float_dense));
  }
  test::check_contains(
      test::message_of<ConfigError>([&] { described({.multi_hot = "1,2"}, false); }),
      {"--multi-hot", "expected 3 sizes"});
}

}  // namespace
}  // namespace hlite::prep
