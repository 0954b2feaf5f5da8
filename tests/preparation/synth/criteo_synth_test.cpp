#include "hugectr_lite/preparation/synth/criteo_synth.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "tests/preparation/synth/demo_options.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/scores.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::area_under_curve, test::log_loss;

using test::TemporaryDirectory;

TEST_CASE("files do not depend on the number of threads, but on the seed") {
  TemporaryDirectory folder;
  const auto files = [&](int threads, uint64_t seed) {
    criteo_synth({.model = demo_options(seed),
                  .train_rows = 9001,
                  .test_rows = 4097,
                  .out = folder / "s",
                  .force = true,
                  .threads = threads});
    return test::read_text(folder / "s.train.tsv") + "|" + test::read_text(folder / "s.test.tsv") +
           "|" + test::read_text(folder / "s.meta.json");
  };
  const std::string one = files(1, 5);
  CHECK((files(4, 5) == one));
  CHECK((files(3, 6) != one));
  CHECK(folder.entries() == 3);
}

TEST_CASE("test rows continue the training rows") {
  TemporaryDirectory folder;
  const auto text = [&](int64_t train, int64_t test) {
    criteo_synth({.model = demo_options(),
                  .train_rows = train,
                  .test_rows = test,
                  .out = folder / "s",
                  .force = true});
    return test::read_text(folder / "s.train.tsv") + test::read_text(folder / "s.test.tsv");
  };
  CHECK((text(100, 50) == text(120, 30)));
}

TEST_CASE("every line is a row of Criteo's format, missing values included") {
  TemporaryDirectory folder;
  criteo_synth({.model = demo_options(), .train_rows = 2000, .test_rows = 0, .out = folder / "s"});
  CHECK(folder.entries() == 2);  // no test file
  const std::string text = test::read_text(folder / "s.train.tsv");
  int empty = 0, negative = 0;
  int64_t rows = 0;
  for (size_t at = 0; at < text.size(); ++rows) {
    const size_t end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    const std::string line = text.substr(at, end - at);
    uint32_t record[criteo::kColumns];
    INFO(line);
    REQUIRE(criteo::parse(line, 0, record));
    empty += line.find("\t\t") != std::string::npos;
    negative += line.find("\t-") != std::string::npos;
    // Tokens are 8 digits, as Criteo's.
    const std::string last = line.substr(line.rfind('\t') + 1);
    CHECK((last.empty() || last.size() == 8));
    at = end + 1;
  }
  CHECK(rows == 2000);
  CHECK(empty > 0);
  CHECK(negative > 0);
}

TEST_CASE("the reported scores are those of the true probabilities") {
  TemporaryDirectory folder;
  const PlantedOptions options = demo_options();
  const int64_t train = 1000, rows = 20000;
  const SynthScores scores = criteo_synth({.model = options,
                                           .train_rows = train,
                                           .test_rows = rows,
                                           .out = folder / "s",
                                           .force = true})
                                 .test;
  const PlantedModel model(options);
  const std::string text = test::read_text(folder / "s.test.tsv");
  std::vector<uint8_t> labels;
  std::vector<double> probabilities;
  double sum = 0;
  size_t at = 0;
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(text[at] == '1');  // from the file, not from the model
    at = text.find('\n', at) + 1;
    const double logit = model.row(static_cast<uint64_t>(train + i)).logit;
    probabilities.push_back(1 / (1 + std::exp(-logit)));
    sum += labels.back();
  }
  CHECK(at == text.size());
  CHECK(scores.rows == rows);
  CHECK(scores.label_rate == sum / static_cast<double>(rows));
  CHECK(scores.bayes_auc == Approx(area_under_curve(labels, probabilities)).margin(1e-5));
  CHECK(scores.bayes_log_loss == Approx(log_loss(labels, probabilities)).epsilon(1e-12));
  // As asked for, within the noise of this many rows (a standard error is about 0.003).
  CHECK(std::abs(scores.bayes_auc - 0.87) < 0.012);
  CHECK(std::abs(scores.label_rate - options.click_rate) < 0.012);
  CHECK(scores.bayes_log_loss < scores.base_log_loss - 0.1);
  const auto meta = nlohmann::json::parse(test::read_text(folder / "s.meta.json"));
  CHECK(meta["test"]["bayes_auc"].get<double>() == scores.bayes_auc);
  CHECK(meta["model"]["cards"] == options.columns.cards);
}

TEST_CASE("one prefix holds one set") {
  TemporaryDirectory folder;
  CriteoSynthOptions options{
      .model = demo_options(), .train_rows = 100, .test_rows = 50, .out = folder / "s"};
  criteo_synth(options);
  options.format = SynthFormat::kRaw;
  test::check_contains(test::message_of<ConfigError>([&] { criteo_synth(options); }),
                       {folder / "s: expected no files of an earlier run, found s.meta.json, "
                                 "s.test.tsv, s.train.tsv"});
  options.force = true;
  options.test_rows = 0;
  criteo_synth(options);
  CHECK(folder.entries() == 4);  // s.train.bin and what belongs to it
}

TEST_CASE("raw files hold what preparing the text would give, keys by rank") {
  TemporaryDirectory folder;
  CriteoSynthOptions options{.model = demo_options(),
                             .train_rows = 5003,
                             .test_rows = 499,
                             .out = folder / "s",
                             .force = true};
  const SynthResult text_result = criteo_synth(options);
  options.format = SynthFormat::kRaw;
  options.threads = 3;
  options.out = folder / "r";
  const SynthResult result = criteo_synth(options);
  CHECK(result.test.bayes_auc == text_result.test.bayes_auc);
  CHECK(folder.entries() == 8);

  const PlantedModel model(options.model);
  std::vector<std::vector<uint32_t>> count(26, std::vector<uint32_t>(2001, 0));
  int64_t positives = 0;
  for (const char* split : {"train", "test"}) {
    const std::string text = test::read_text(folder / (std::string("s.") + split + ".tsv"));
    const std::string raw = test::read_text(folder / (std::string("r.") + split + ".bin"));
    const bool train = split == std::string("train");
    REQUIRE(raw.size() == (train ? 5003u : 499u) * 160);
    size_t at = 0;
    for (size_t row = 0; row * 160 < raw.size(); ++row) {
      const size_t end = text.find('\n', at);
      uint32_t expected[criteo::kColumns], found[criteo::kColumns];
      REQUIRE(criteo::parse(text.substr(at, end - at), 0, expected));
      std::memcpy(found, raw.data() + row * 160, 160);
      for (int c = 0; c < criteo::kFirstKey; ++c) REQUIRE(found[c] == expected[c]);
      for (int s = 0; s < criteo::kSlots; ++s) {
        const uint32_t key = found[criteo::kFirstKey + s];
        REQUIRE((key == 0 ? 0 : model.token(s, key)) == expected[criteo::kFirstKey + s]);
        if (train) ++count[static_cast<size_t>(s)][key];
      }
      positives += train && found[0] == 1;
      at = end + 1;
    }
  }

  const data::Manifest manifest = data::Manifest::read(folder / "r.manifest.json");
  CHECK(manifest.dense_dim == 13);
  CHECK(manifest.record_bytes() == 160);
  REQUIRE(manifest.files.size() == 2);
  CHECK(manifest.files[0].role == "train");
  CHECK(manifest.files[0].rows == 5003);
  CHECK(manifest.files[0].positives == positives);
  CHECK(manifest.files[1].name == "r.test.bin");
  const std::string counts = test::read_text(folder / manifest.key_counts_name);
  size_t first = 0;
  for (size_t s = 0; s < 26; ++s) {
    const auto size = static_cast<size_t>(options.model.columns.cards[s] + 1);
    CHECK(manifest.slot_sizes[s] == options.model.columns.cards[s] + 1);
    std::vector<uint32_t> of_slot(size);
    REQUIRE((first + size) * 4 <= counts.size());
    std::memcpy(of_slot.data(), counts.data() + first * 4, size * 4);
    count[s].resize(size);
    CHECK((of_slot == count[s]));
    first += size;
    std::sort(of_slot.rbegin(), of_slot.rend());
    CHECK(manifest.columns[s].distinct ==
          std::count_if(of_slot.begin(), of_slot.end(), [](uint32_t n) { return n > 0; }));
    CHECK(manifest.columns[s].missing == count[s][0]);
    CHECK(manifest.columns[s].top_share[0] == Approx(of_slot[0] / 5003.0));
    double ten = 0;
    for (size_t k = 0; k < std::min<size_t>(10, size); ++k) ten += of_slot[k];
    CHECK(manifest.columns[s].top_share[1] == Approx(ten / 5003.0));
  }
  CHECK(counts.size() == first * 4);
}

// The tokens of each column of a file.
std::vector<std::set<std::string>> tokens_of(const std::string& path) {
  std::vector<std::set<std::string>> tokens(criteo::kSlots);
  const std::string text = test::read_text(path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    size_t field = at;
    for (int c = 0; c < criteo::kColumns; ++c) {
      const size_t stop = std::min(text.find('\t', field), end);
      if (c >= criteo::kFirstKey && stop > field)
        tokens[static_cast<size_t>(c - criteo::kFirstKey)].insert(text.substr(field, stop - field));
      field = stop + 1;
    }
    at = end + 1;
  }
  return tokens;
}

TEST_CASE(
    "by day, the asked share of each vocabulary is replaced, and each day has its own scores") {
  TemporaryDirectory folder;
  constexpr int64_t kRows = 8000, kDays = 4, kCard = 60;
  PlantedOptions options = demo_options();
  options.columns.cards.assign(criteo::kSlots, kCard);  // so few that every one occurs
  options.days = kDays;
  options.turnover = 0.15;
  const auto draw = [&](int threads) {
    return criteo_synth({.model = options,
                         .train_rows = kRows,
                         .test_rows = 0,
                         .by_day = true,
                         .out = folder / "s",
                         .force = true,
                         .threads = threads});
  };
  const SynthResult result = draw(2);
  REQUIRE(result.days.size() == kDays);
  CHECK(folder.entries() == kDays + 1);
  std::vector<std::vector<std::set<std::string>>> days;
  for (int day = 0; day < kDays; ++day)
    days.push_back(tokens_of(folder / ("s.day_0" + std::to_string(day) + ".tsv")));
  const auto kept = [&](size_t slot, size_t from, size_t to) {
    int64_t common = 0;
    for (const std::string& token : days[from][slot]) common += days[to][slot].contains(token);
    return static_cast<double>(common) / kCard;
  };
  for (size_t slot = 0; slot < criteo::kSlots; ++slot) {
    INFO("C" << slot + 1);
    for (size_t day = 0; day < kDays; ++day) CHECK(days[day][slot].size() == kCard);
    for (size_t day = 0; day + 1 < kDays; ++day)
      CHECK(std::abs(kept(slot, day, day + 1) - 0.85) <= 0.03);
    CHECK(std::abs(kept(slot, 0, 3) - 0.55) <= 0.03);
  }

  // Scores against the model's own probabilities, and near what was asked for on the first day.
  const PlantedModel model(options);
  const auto meta = nlohmann::json::parse(test::read_text(folder / "s.meta.json"));
  REQUIRE(meta["days"].size() == kDays);
  for (int64_t day = 0; day < kDays; ++day) {
    INFO("day " << day);
    std::vector<uint8_t> labels;
    std::vector<double> probabilities;
    for (int64_t i = 0; i < kRows; ++i) {
      const PlantedRow row = model.row(static_cast<uint64_t>(day * kRows + i), day);
      labels.push_back(row.label);
      probabilities.push_back(1 / (1 + std::exp(-row.logit)));
    }
    const SynthScores& scores = result.days[static_cast<size_t>(day)];
    CHECK(scores.bayes_auc == Approx(area_under_curve(labels, probabilities)).margin(1e-5));
    CHECK(std::abs(scores.bayes_auc - 0.87) < 0.03);
    CHECK(meta["days"][static_cast<size_t>(day)]["bayes_auc"].get<double>() == scores.bayes_auc);
  }
  CHECK(result.days[1].bayes_auc != result.days[0].bayes_auc);

  const std::string last = test::read_text(folder / "s.day_03.tsv");
  draw(1);
  CHECK((test::read_text(folder / "s.day_03.tsv") == last));
  // The first day is that of a vocabulary which stays.
  const std::string first = test::read_text(folder / "s.day_00.tsv");
  options.turnover = 0;
  draw(2);
  CHECK((test::read_text(folder / "s.day_00.tsv") == first));
  CHECK((tokens_of(folder / "s.day_03.tsv") == days[0]));
}

TEST_CASE("days that cannot be drawn are refused") {
  TemporaryDirectory folder;
  CriteoSynthOptions options{.model = demo_options(),
                             .train_rows = 10,
                             .test_rows = 0,
                             .by_day = true,
                             .out = folder / "s"};
  const auto message = [&] {
    return test::message_of<ConfigError>([&] { criteo_synth(options); });
  };
  options.format = SynthFormat::kRaw;
  test::check_contains(message(), {"--days", "--format tsv", "raw"});
  options.format = SynthFormat::kTsv;
  options.test_rows = 5;
  test::check_contains(message(), {"--days", "no --test"});
  options.test_rows = 0;
  options.model.turnover = 1;
  options.model.days = 10000;
  options.model.columns.cards[7] = 5000;
  test::check_contains(message(), {"--days and --turnover", "C8"});
}

}  // namespace
}  // namespace hlite::prep
