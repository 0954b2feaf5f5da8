#include "hugectr_lite/preparation/synth/history_synth.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/scores.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;

PlantedHistoryOptions small_model(int64_t max_len = 12) {
  return {.max_len = max_len, .users = 40, .items = 101, .categories = 7, .seed = 3};
}

// A sample of a Norm file as its bytes say it.
struct NormSample {
  float label = 0;
  std::vector<std::vector<uint32_t>> slots;
};

// Takes the block at `at`, whose sum it checks.
std::string take_block(const std::string& bytes, size_t& at) {
  int32_t length = 0;
  std::memcpy(&length, bytes.data() + at, sizeof(length));
  std::string block = bytes.substr(at + 4, static_cast<size_t>(length));
  const auto sum = static_cast<uint8_t>(data::byte_sum(std::as_bytes(std::span(block))));
  at += 4 + block.size() + 1;
  REQUIRE(at <= bytes.size());
  REQUIRE(static_cast<uint8_t>(bytes[at - 1]) == sum);
  return block;
}

std::vector<NormSample> samples_of(const std::string& path) {
  const std::string bytes = test::read_text(path);
  size_t at = 0;
  int64_t header[5];
  std::memcpy(header, take_block(bytes, at).data(), sizeof(header));
  CHECK(header[0] == 1);
  CHECK((header[2] == 1 && header[3] == 0 && header[4] == 5));
  std::vector<NormSample> samples;
  while (at < bytes.size()) {
    const std::string block = take_block(bytes, at);
    NormSample sample;
    std::memcpy(&sample.label, block.data(), 4);
    for (size_t from = 4; from < block.size();) {
      int32_t nnz = 0;
      std::memcpy(&nnz, block.data() + from, 4);
      std::vector<uint32_t>& keys = sample.slots.emplace_back(static_cast<size_t>(nnz));
      if (nnz > 0) std::memcpy(keys.data(), block.data() + from + 4, keys.size() * 4);
      from += 4 + keys.size() * 4;
    }
    samples.push_back(std::move(sample));
  }
  CHECK(std::ssize(samples) == header[1]);
  return samples;
}

double probability(double logit) { return 1 / (1 + std::exp(-logit)); }

TEST_CASE("files of histories do not depend on the number of threads, but on the seed") {
  TemporaryDirectory folder;
  const auto files = [&](int threads, uint64_t seed) {
    PlantedHistoryOptions model = small_model();
    model.seed = seed;
    history_synth({.model = model,
                   .train_rows = 9001,
                   .test_rows = 4097,
                   .out = folder / "s",
                   .force = true,
                   .threads = threads});
    std::string all;
    for (const char* name : {"train.norm", "train.txt", "test.norm", "test.txt", "histories.json"})
      all += test::read_text(folder / ("s." + std::string(name)));
    return all;
  };
  const std::string one = files(1, 5);
  CHECK((files(4, 5) == one));
  CHECK((files(3, 6) != one));
  CHECK(folder.entries() == 5);
}

TEST_CASE("the best scores with a history and without it are those of the samples") {
  TemporaryDirectory folder;
  const int64_t max_len = GENERATE(1, 12);
  const HistorySynthOptions options{
      .model = small_model(max_len), .train_rows = 60000, .test_rows = 20000, .out = folder / "s"};
  const HistorySynthResult result = history_synth(options);
  const PlantedHistory model(options.model);
  const std::vector<NormSample> samples = samples_of(folder / "s.train.norm");
  REQUIRE(samples.size() == 60000);
  std::vector<uint8_t> labels;
  std::vector<double> seeing, blind;
  int64_t empty = 0, long_ones = 0, known = 0;
  double of_rows[2] = {0, 0}, rows[2] = {0, 0}, sum = 0;
  HistoryRow row;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& [label, slots] = samples[i];
    model.row(i, row);
    REQUIRE(slots.size() == 5);
    REQUIRE((slots[0].size() == 1 && slots[1].size() == 1 && slots[2].size() == 1));
    REQUIRE((slots[0][0] < 40 && slots[1][0] < 101 && slots[2][0] == slots[1][0] % 7));
    REQUIRE(slots[3].size() == slots[4].size());
    for (size_t j = 0; j < slots[3].size(); ++j)
      REQUIRE((slots[3][j] < 101 && slots[4][j] == slots[3][j] % 7));
    REQUIRE((slots[3] == row.history && label == static_cast<float>(row.label)));
    empty += slots[3].empty();
    long_ones += std::ssize(slots[3]) > max_len;
    // What the label depends on, from the keys alone.
    const auto last = slots[4].end() - std::min<int64_t>(max_len, std::ssize(slots[4]));
    const bool match = std::find(last, slots[4].end(), slots[2][0]) != slots[4].end();
    known += match;
    ++rows[match], of_rows[match] += label;
    CHECK(std::abs(row.logit - row.blind_logit) > 0.1);
    REQUIRE((row.logit > row.blind_logit) == match);
    labels.push_back(row.label);
    seeing.push_back(probability(row.logit));
    blind.push_back(probability(row.blind_logit));
    sum += seeing.back() - blind.back();
  }
  const auto n = static_cast<double>(samples.size());
  CHECK(static_cast<double>(empty) / n == Approx(1.0 / 16).margin(0.005));
  CHECK(static_cast<double>(known) / n == Approx(15.0 / 32).margin(0.01));
  CHECK(static_cast<double>(long_ones) / n > 0.15);
  CHECK(of_rows[1] / rows[1] > of_rows[0] / rows[0] + 0.2);
  CHECK(std::abs(sum / n) < 0.005);  // who does not know the history is right on average
  CHECK(std::abs(result.train.seeing.label_rate - 0.25) < 0.012);
  const auto& [best, without] = result.train;
  CHECK(best.bayes_auc == Approx(test::area_under_curve(labels, seeing)).margin(1e-5));
  CHECK(best.bayes_log_loss == Approx(test::log_loss(labels, seeing)).epsilon(1e-12));
  CHECK(without.bayes_auc == Approx(test::area_under_curve(labels, blind)).margin(1e-5));
  CHECK(without.bayes_log_loss == Approx(test::log_loss(labels, blind)).epsilon(1e-12));
  CHECK(best.bayes_auc > without.bayes_auc + 0.1);
  CHECK(without.bayes_auc > 0.6);
  const auto json = nlohmann::json::parse(test::read_text(folder / "s.histories.json"));
  CHECK(json["train"]["bayes_auc"].get<double>() == best.bayes_auc);
  CHECK(json["val"]["bayes_auc_without_history"].get<double>() == result.test.blind.bayes_auc);
  CHECK(json["max_len"] == max_len);
  CHECK(json["rows"]["item"] == 101);
  CHECK(test::read_text(folder / "s.test.txt") == "1\ns.test.norm\n");
}

TEST_CASE("options of histories that make no sense are named") {
  TemporaryDirectory folder;
  const auto error = [&](const PlantedHistoryOptions& model) {
    return test::message_of<ConfigError>(
        [&] { history_synth({.model = model, .train_rows = 5, .out = folder / "s"}); });
  };
  PlantedHistoryOptions model = small_model(0);
  test::check_contains(error(model), {"--history: expected 1 to 1048576 events, found 0"});
  model = small_model();
  model.items = 6;
  test::check_contains(error(model), {"--cards: expected, with --history,", "found 40,6,7"});
  CHECK(folder.entries() == 0);
  const HistorySynthOptions options{
      .model = small_model(), .train_rows = 5, .test_rows = 0, .out = folder / "s"};
  history_synth(options);
  CHECK(folder.entries() == 3);
  test::check_contains(test::message_of<ConfigError>([&] { history_synth(options); }),
                       {"expected no files of an earlier run, found s.histories.json"});
}

}  // namespace
}  // namespace hlite::prep
