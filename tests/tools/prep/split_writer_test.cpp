#include "tools/prep/split_writer.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"
#include "tests/tools/prep/row_fixtures.h"
#include "tools/io/numpy_file.h"
#include "tools/prep/multi_hot.h"
#include "tools/prep/row_shuffle.h"

namespace hlite::tools {
namespace {

using test::GeneratedRows;
using test::read_text;
using test::TemporaryDirectory;

std::string hash_of(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <typename T>
T take(const std::string& bytes, size_t& at) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

// The exact logarithm, rounded; the writer may be off by one unit in the last place.
float log1p_of(int32_t x) { return static_cast<float>(std::log1p(static_cast<double>(x))); }
bool close(float a, float b) { return std::abs(a - b) <= 2e-7f * std::abs(b); }

const std::vector<int64_t> kSizes = {1000, 3, 70000};
GeneratedRows make_rows(int64_t rows, bool floats, int dense = 2) {
  return {{.dense = dense, .slots = 3, .dense_is_float = floats}, rows, kSizes};
}

struct Result {
  TemporaryDirectory folder;
  WrittenSplit split;
};

std::unique_ptr<Result> written(const RowSource& rows, OutputOptions options, int threads = 2,
                                int64_t memory = 1 << 20, const std::string& role = "train") {
  auto result = std::make_unique<Result>();
  options.folder = result->folder.path();
  ThreadPool pool(threads);
  result->split = write_split(rows, role, kSizes, options,
                              {.memory_bytes = memory, .scratch = result->folder.path()}, pool);
  for (const auto& output : result->split.outputs) {
    CHECK(std::filesystem::exists(output->temporary_path()));
    CHECK_FALSE(std::filesystem::exists(output->path()));
  }
  result->split.commit();
  return result;
}

std::vector<int64_t> in_order(int64_t rows) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

int64_t positives(const GeneratedRows& rows) {
  int64_t n = 0;
  for (int64_t row = 0; row < rows.rows(); ++row) n += rows.label(row);
  return n;
}

// What a row's keys are, expanded when `lists` is given.
std::vector<uint32_t> keys_of(const GeneratedRows& rows, int64_t row, const MultiHot* lists) {
  std::vector<uint32_t> ids;
  for (int s = 0; s < 3; ++s) ids.push_back(rows.id(row, s));
  if (lists == nullptr) return ids;
  std::vector<uint32_t> keys(static_cast<size_t>(lists->keys()));
  lists->expand(ids.data(), keys.data());
  return keys;
}

TEST_CASE("raw files hold the words of the rows") {
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

TEST_CASE("rows without dense values or without keys") {
  for (const auto& [dense, slots] : {std::pair{0, 3}, std::pair{2, 0}, std::pair{0, 0}}) {
    const GeneratedRows rows({.dense = dense, .slots = slots}, 101,
                             {kSizes.begin(), kSizes.begin() + slots});
    for (const auto format : {OutputFormat::kRaw, OutputFormat::kNorm, OutputFormat::kNumpy}) {
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

TEST_CASE("multi-hot raw files hold logarithms and lists") {
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

TEST_CASE("Norm files, several to a split, hold what the rows hold") {
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

TEST_CASE("NumPy sets hold one array a kind") {
  for (const int64_t count : {0, 1, 1009})
    for (const bool floats : {false, true})
      for (const char* multi_hot : {"", "2,1,5"}) {
        const std::vector<int64_t> hotness =
            *multi_hot ? std::vector<int64_t>{2, 1, 5} : std::vector<int64_t>{1, 1, 1};
        const MultiHot lists(hotness, kSizes, 0);
        const GeneratedRows rows = make_rows(count, floats);
        const auto result =
            written(rows, {.format = OutputFormat::kNumpy, .multi_hot = multi_hot}, 3, 20000);
        std::string label, dense, keys;
        for (int64_t row = 0; row < count; ++row) {
          const auto words = rows.words(row);
          put(label, words[0]);
          put(dense, words[1]);
          put(dense, words[2]);
          for (const uint32_t key : keys_of(rows, row, &lists)) put(keys, key);
        }
        std::string digits;
        const auto check = [&](const char* name, const char* type, std::vector<int64_t> shape,
                               const std::string& data) {
          const std::string path = result->folder / (std::string("train/") + name);
          const std::string bytes = read_text(path);
          const NumpyHeader header = read_numpy_header(ReadFile(path));
          CHECK(header.type == type);
          CHECK(header.shape == shape);
          CHECK(bytes.substr(static_cast<size_t>(header.data_offset)) == data);
          digits += hash_of(bytes);
        };
        check("label.npy", "<i4", {count}, label);
        check("dense.npy", floats ? "<f4" : "<i4", {count, 2}, dense);
        check("keys.npy", "<i4", {count, lists.keys()}, keys);
        CHECK(result->split.file.name == "train");
        CHECK(result->split.file.xxh3 == hash_of(digits));
      }
}

TEST_CASE("training rows are shuffled by the seed, others stay as they are") {
  const GeneratedRows rows = make_rows(3001, false);
  std::vector<int64_t> order = in_order(3001);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return shuffle_key(11, a) < shuffle_key(11, b); });
  std::string expected, plain;
  for (int64_t i = 0; i < 3001; ++i) {
    for (const uint32_t word : rows.words(order[static_cast<size_t>(i)])) put(expected, word);
    for (const uint32_t word : rows.words(i)) put(plain, word);
  }
  const OutputOptions options{.shuffle = true, .seed = 11};
  for (const int64_t memory : {int64_t{1} << 24, int64_t{60000}})
    for (const int threads : {1, 4}) {
      const auto train = written(rows, options, threads, memory);
      CHECK(read_text(train->folder / "train.bin") == expected);
      const auto val = written(rows, options, threads, memory, "val");
      CHECK(read_text(val->folder / "val.bin") == plain);
    }
}

TEST_CASE("progress is told and may stop the work; nothing stays behind") {
  const GeneratedRows rows = make_rows(1000, false);
  TemporaryDirectory folder;
  ThreadPool pool(2);
  OutputOptions options;
  options.folder = folder.path();
  int64_t last = 0;
  SplitResources resources{.memory_bytes = 10000, .scratch = folder.path(), .progress = {}};
  resources.progress = [&](int64_t done, int64_t all) {
    CHECK(done >= last);
    CHECK(all == 1000);
    last = done;
  };
  write_split(rows, "train", kSizes, options, resources, pool);
  CHECK(last == 1000);
  resources.progress = [](int64_t done, int64_t) {
    if (done > 500) throw Error("stop");
  };
  CHECK(test::message_of<Error>(
            [&] { write_split(rows, "train", kSizes, options, resources, pool); }) == "stop");
  CHECK(folder.entries() == 0);
}

// Rows that cannot be read from some row on.
class FailingRows final : public RowSource {
 public:
  explicit FailingRows(const GeneratedRows& rows) : rows_(rows) {}
  [[nodiscard]] const RowShape& shape() const override { return rows_.shape(); }
  [[nodiscard]] int64_t rows() const override { return rows_.rows(); }
  void read(int64_t first, int64_t count, uint32_t* out) const override {
    if (first + count > 700) throw FileError("row 700 is gone");
    rows_.read(first, count, out);
  }

 private:
  const GeneratedRows& rows_;
};

TEST_CASE("a full disk or an unreadable source is an error; no file stays") {
  const GeneratedRows rows = make_rows(100000, false);
  for (const bool shuffle : {false, true})
    for (const auto format : {OutputFormat::kRaw, OutputFormat::kNorm, OutputFormat::kNumpy}) {
      TemporaryDirectory folder;
      ThreadPool pool(3);
      OutputOptions options{.format = format, .shuffle = shuffle};
      options.folder = folder.path();
      const SplitResources resources{
          .memory_bytes = 1 << 22, .scratch = folder.path(), .progress = {}};
      const std::string message = test::message_of<FileError>([&] {
        const test::FileSizeLimit limit(200000);
        write_split(rows, "train", kSizes, options, resources, pool);
      });
      test::check_contains(message, {folder.path(), "cannot write", "File too large"});
      const FailingRows failing(rows);
      CHECK(test::message_of<FileError>([&] {
              write_split(failing, "train", kSizes, options, resources, pool);
            }) == "row 700 is gone");
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
        CHECK(entry.is_directory());
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
    m = described({.format = OutputFormat::kNumpy}, floats);
    CHECK(m.format == "numpy");
    CHECK_FALSE(m.float_label);
    CHECK(m.float_dense == floats);
  }
  test::check_contains(
      test::message_of<ConfigError>([&] { described({.multi_hot = "1,2"}, false); }),
      {"--multi-hot", "expected 3 sizes"});
}

TEST_CASE("publish replaces a data set as a whole") {
  const GeneratedRows rows = make_rows(10, false);
  TemporaryDirectory folder;
  ThreadPool pool(1);
  OutputOptions options;
  options.folder = folder.path();
  test::write_text(folder / "manifest.json", "old");
  data::Manifest manifest;
  manifest.tool = "test";
  manifest.slot_sizes = kSizes;
  describe_output(options, rows.shape(), manifest);
  std::vector<WrittenSplit> splits;
  splits.push_back(write_split(rows, "train", kSizes, options, {}, pool));
  splits.push_back(write_split(rows, "val", kSizes, options, {}, pool));
  publish(folder.path(), manifest, splits);
  CHECK(folder.entries() == 3);
  const data::Manifest read = data::Manifest::read(folder / "manifest.json");
  REQUIRE(read.files.size() == 2);
  CHECK(read.files[1].name == "val.bin");
  CHECK(read.files[1].xxh3 == hash_of(read_text(folder / "val.bin")));
}

}  // namespace
}  // namespace hlite::tools
