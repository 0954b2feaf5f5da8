// Batches of Criteo's lines against their definition: every field read by itself.
#include "data_reader/text/text_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::message_of;

namespace {

struct Sample {
  float label;
  std::vector<double> dense;
  std::vector<uint32_t> keys;
};

// MurmurHash3's finaliser, which `criteo_prep --hash` documents.
uint64_t murmur(uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
  return x ^ x >> 33;
}

std::vector<int64_t> table_rows() {
  std::vector<int64_t> rows;
  for (int64_t s = 0; s < 26; ++s) rows.push_back(1 + s * s * 97);
  rows[25] = int64_t{1} << 40;  // as of tables that are hashed
  return rows;
}

std::vector<Sample> samples_of(const std::string& text) {
  std::vector<Sample> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    std::istringstream fields(line + '\t');
    std::string field;
    Sample s;
    std::getline(fields, field, '\t');
    s.label = field == "1" ? 1.0f : 0.0f;
    for (int k = 0; k < 13; ++k) {
      std::getline(fields, field, '\t');
      s.dense.push_back(field.empty() ? 0 : std::log1p(std::max(0, std::stoi(field))));
    }
    for (size_t k = 0; k < 26; ++k) {
      std::getline(fields, field, '\t');
      const uint64_t token = field.empty() ? 0 : std::stoul(field, nullptr, 16);
      const auto rows = static_cast<uint64_t>(std::min(table_rows()[k], int64_t{0xffffffff}));
      s.keys.push_back(token == 0 ? 0 : static_cast<uint32_t>(murmur(token) % rows));
    }
    samples.push_back(s);
  }
  return samples;
}

config::DataConfig criteo_config(int64_t threads) {
  config::DataConfig config;
  config.format = &config::data_format("Criteo");
  config.key_policy.kind = config::KeyPolicy::kHash;
  config.label_dim = 1;
  config.dense_dim = 13;
  config.sparse.resize(1);
  config.sparse[0].slot_num = 26;
  config.sparse[0].hotness.assign(26, 1);
  config.num_workers = threads;
  return config;
}

std::unique_ptr<BatchSource> open(const std::string& path, int64_t batch,
                                  const SourceOptions& options = {}, int64_t threads = 2) {
  return open_source(criteo_config(threads), path, Split::kTrain, batch, table_rows(), options);
}

// The rows of the batch are samples[first], ...
void check_rows(const HostBatch& batch, const std::vector<Sample>& samples, int64_t first,
                int64_t size) {
  REQUIRE(batch.size == size);
  for (int64_t i = 0; i < size; ++i) {
    const Sample& s = samples.at(static_cast<size_t>(first + i));
    INFO("sample " << first + i);
    CHECK(batch.labels(i, 0) == s.label);
    for (int64_t k = 0; k < 13; ++k) {
      const double want = s.dense[static_cast<size_t>(k)];
      CHECK(std::abs(batch.dense(i, k) - want) <= 1.2e-7 * want);
    }
    for (int64_t k = 0; k < 26; ++k) CHECK(batch.keys(i, k) == s.keys[static_cast<size_t>(k)]);
  }
}

}  // namespace

TEST_CASE("lines become batches, epoch after epoch, on any number of threads", "[threads]") {
  const test::TemporaryDirectory folder;
  for (const int n : {1, 5, 64, 700}) {
    const std::string text = prep::awkward_rows(static_cast<uint64_t>(n), n, n != 64);
    const std::vector<Sample> samples = samples_of(text);
    test::write_text(folder / "a.tsv", text);
    for (const int64_t threads : {1, 3})
      for (const int64_t batch : {1, 7, 64, 1000}) {
        INFO(n << " lines, batches of " << batch << ", " << threads << " threads");
        const auto source = open(folder / "a.tsv", batch, {}, threads);
        CHECK(source->samples() == n);
        for (int epoch = 0; epoch < 2; ++epoch)
          for (int64_t first = 0; first < n; first += batch)
            check_rows(source->next(), samples, first, std::min<int64_t>(batch, n - first));
      }
  }
}

TEST_CASE("a text file that is cut short while it is read is an error with its place",
          "[threads]") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "a.tsv", text = prep::awkward_rows(3, 700);
  test::write_text(path, text);
  const auto source = open(path, 7);
  CHECK(source->next().size == 7);
  const auto left = static_cast<int64_t>(text.size() / 2);
  std::filesystem::resize_file(path, text.size() / 2);
  const std::string message = message_of<FileError>([&] {
    for (int b = 1; b < 100; ++b) source->next();
  });
  check_contains(message, {path + ": cannot read ", " bytes at offset ",
                           fmt::format("the file ends at {} (it had {} bytes", left, text.size())});
}

TEST_CASE("lines are read from any batch on, by shards, to an end, and as many as are wanted",
          "[threads]") {
  const test::TemporaryDirectory folder;
  const std::string text = prep::awkward_rows(2, 103);
  const std::vector<Sample> samples = samples_of(text);
  test::write_text(folder / "a.tsv", text);
  for (const int64_t start : {0, 5, 12}) {
    const auto source = open(folder / "a.tsv", 8, {.start_batch = start, .repeat = false});
    for (int64_t b = start; b < 13; ++b) check_rows(source->next(), samples, 8 * b, b < 12 ? 8 : 7);
    CHECK(source->next().size == 0);
  }
  for (const int64_t index : {0, 1, 2, 3}) {
    const auto source =
        open(folder / "a.tsv", 12, {.repeat = false, .shard = {.index = index, .count = 4}});
    for (int64_t b = 0; b < 9; ++b)  // the last batch has 7 samples
      check_rows(source->next(), samples, 12 * b + 3 * index,
                 b < 8 ? 3 : std::clamp<int64_t>(7 - 3 * index, 0, 3));
  }
  const auto few = open(folder / "a.tsv", 8, {.repeat = false, .max_samples = 19});
  CHECK(few->samples() == 19);
  for (const int64_t size : {8, 8, 3}) CHECK(few->next().size == size);
  CHECK(few->next().size == 0);
  const auto whole = open(folder / "a.tsv", 50, {.repeat = false, .resident = true});
  const HostBatch *one = &whole->next(), *two = &whole->next(), *three = &whole->next();
  check_rows(*one, samples, 0, 50);
  check_rows(*two, samples, 50, 50);
  check_rows(*three, samples, 100, 3);

  config::DataConfig config = criteo_config(1);
  config.num_samples = 104;
  check_contains(message_of<DataError>([&] {
                   open_source(config, folder / "a.tsv", Split::kTrain, 8, table_rows(), {});
                 }),
                 {"a.tsv", "expected 104 samples (num_samples), found 103"});
}

TEST_CASE("samples of lines are shuffled as those of records are", "[threads]") {
  const test::TemporaryDirectory folder;
  const std::string text = prep::awkward_rows(3, 40);
  std::vector<std::vector<uint32_t>> expected, found;
  for (const Sample& s : samples_of(text)) expected.push_back(s.keys);
  test::write_text(folder / "a.tsv", text);
  const auto source = open(folder / "a.tsv", 8, {.seed = 1, .shuffle_samples = true});
  for (int b = 0; b < 5; ++b) {
    const HostBatch& batch = source->next();
    for (int64_t i = 0; i < batch.size; ++i)
      found.emplace_back(batch.keys.row(i), batch.keys.row(i) + 26);
  }
  CHECK(found != expected);
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
}

TEST_CASE("a bad line is named, after the batches before it", "[threads]") {
  const test::TemporaryDirectory folder;
  const std::string good = prep::awkward_rows(4, 21);
  for (const auto& [bad, why] : std::vector<std::pair<std::string, std::string>>{
           {"2" + good.substr(1, good.find('\n')),
            "column 1 (label): expected 0 or 1, found \"2\""},
           {"1\t2\t3\n", "expected 40 tab-separated columns, found 3"},
           {"\n", "expected 40 tab-separated columns, found 1"}}) {
    test::write_text(folder / "a.tsv", good + bad + good);
    const auto source = open(folder / "a.tsv", 5, {}, 3);
    for (int b = 0; b < 4; ++b) CHECK(source->next().size == 5);
    for (int again = 0; again < 2; ++again)
      check_contains(message_of<DataError>([&] { source->next(); }), {"a.tsv:22: " + why});
  }
}
