#include "tools/criteo_synth.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"
#include "tools/criteo_prep.h"
#include "tools/score.h"

namespace hlite::tools {
namespace {

using test::TemporaryDirectory;

PlantedOptions demo_options(uint64_t seed = 5) {
  PlantedOptions options;
  options.seed = seed;
  options.cards = named_cardinalities("demo");
  options.calibration_rows = 20000;
  return options;
}

TEST_CASE("files do not depend on the number of threads, but on the seed") {
  TemporaryDirectory folder;
  const auto files = [&](int threads, uint64_t seed) {
    criteo_synth({.model = demo_options(seed),
                  .train_rows = 9001,
                  .test_rows = 4097,
                  .out = folder / "s",
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
    criteo_synth(
        {.model = demo_options(), .train_rows = train, .test_rows = test, .out = folder / "s"});
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
  const SynthScores scores =
      criteo_synth({.model = options, .train_rows = train, .test_rows = rows, .out = folder / "s"});
  const PlantedModel model(options);
  const std::string text = test::read_text(folder / "s.test.tsv");
  std::vector<uint8_t> labels;
  std::vector<double> probabilities;
  double sum = 0;
  size_t at = 0;
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(text[at] == '1');  // from the file, not from the model
    at = text.find('\n', at) + 1;
    probabilities.push_back(model.row(static_cast<uint64_t>(train + i)).probability);
    sum += labels.back();
  }
  CHECK(at == text.size());
  CHECK(scores.rows == rows);
  CHECK(scores.label_rate == sum / static_cast<double>(rows));
  CHECK(scores.bayes_auc == area_under_curve(labels, probabilities));
  CHECK(scores.bayes_log_loss == log_loss(labels, probabilities));
  // As asked for, within the noise of this many rows (a standard error is about 0.003).
  CHECK(std::abs(scores.bayes_auc - options.auc) < 0.012);
  CHECK(std::abs(scores.label_rate - options.click_rate) < 0.012);
  CHECK(scores.bayes_log_loss < scores.base_log_loss - 0.1);
  const auto meta = nlohmann::json::parse(test::read_text(folder / "s.meta.json"));
  CHECK(meta["test"]["bayes_auc"].get<double>() == scores.bayes_auc);
  CHECK(meta["model"]["cards"] == options.cards);
}

TEST_CASE("pairs cannot be seen from one slot alone") {
  // All of the logit but a sliver is pairwise: no category's click rate may stand out, while the
  // labels are far from random.
  PlantedOptions options = demo_options();
  options.share_linear = options.share_dense = 0;
  options.share_pairwise = 1;
  options.missing = 0;
  const PlantedModel model(options);
  REQUIRE(model.pairs().size() == static_cast<size_t>(options.pairs));
  const auto slot = static_cast<size_t>(model.pairs()[0][0]);
  constexpr int kRows = 40000;
  std::vector<double> probability(3), rows(3);
  std::vector<uint8_t> labels;
  std::vector<double> all;
  for (uint64_t i = 0; i < kRows; ++i) {
    const PlantedRow row = model.row(i);
    labels.push_back(row.label);
    all.push_back(row.probability);
    if (const uint32_t category = row.category[slot]; category <= 3) {
      probability[category - 1] += row.probability;
      rows[category - 1] += 1;
    }
  }
  CHECK(area_under_curve(labels, all) > 0.85);
  for (size_t c = 0; c < 3; ++c) {
    REQUIRE(rows[c] > 1000);
    CHECK(std::abs(probability[c] / rows[c] - options.click_rate) < 0.12);
  }
}

TEST_CASE("tokens are distinct within a column, also modulo 40,000,000, and never its zero") {
  PlantedOptions options = demo_options();
  options.cards[3] = 100000;
  const PlantedModel model(options);
  std::set<uint32_t> seen;
  bool wide = false;
  for (uint32_t category = 1; category <= 100000; ++category) {
    const uint32_t token = model.token(3, category);
    wide = wide || token > 0xf0000000u;
    seen.insert(token % 40000000);
  }
  CHECK(seen.size() == 100000);
  CHECK(seen.count(0) == 0);
  CHECK(wide);  // all of the 32 bits are in use
}

TEST_CASE("cardinalities become tables of that many rows, plus one for missing values") {
  TemporaryDirectory folder;
  PlantedOptions options = demo_options();
  options.cards.assign(26, 40);
  options.cards[1] = 1;
  options.cards[2] = 3;
  options.zipf = 0.5;
  criteo_synth({.model = options, .train_rows = 20000, .test_rows = 0, .out = folder / "s"});
  const RawManifest manifest =
      criteo_prep({.train = {folder / "s.train.tsv"}, .out = folder.path()});
  CHECK(manifest.slot_sizes[0] == 41);
  CHECK(manifest.slot_sizes[1] == 1);  // small columns have no missing values
  CHECK(manifest.slot_sizes[2] == 3);
}

TEST_CASE("options that make no sense are named") {
  const auto message = [](auto change) {
    PlantedOptions options = demo_options();
    change(options);
    return test::message_of<ConfigError>([&] { PlantedModel model(options); });
  };
  using O = PlantedOptions;
  test::check_contains(message([](O& o) { o.cards.pop_back(); }), {"--cards", "25"});
  test::check_contains(message([](O& o) { o.cards[4] = 0; }), {"--cards", "found 0"});
  test::check_contains(message([](O& o) { o.pairs = 99; }), {"--pairs", "found 99"});
  test::check_contains(message([](O& o) { o.dim = 0; }), {"--dim"});
  test::check_contains(message([](O& o) { o.auc = 0.4; }), {"--auc", "0.4"});
  test::check_contains(message([](O& o) { o.click_rate = 1; }), {"--ctr"});
  test::check_contains(message([](O& o) { o.share_linear = o.share_pairwise = o.share_dense = 0; }),
                       {"--auc", "cannot be reached"});
  test::check_contains(test::message_of<ConfigError>([] { named_cardinalities("mini"); }),
                       {"demo", "mini"});
}

}  // namespace
}  // namespace hlite::tools
