#include "hugectr_lite/preparation/engine/predecessor.h"

#include <cstring>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/criteo/criteo_prep.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::message_of;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

constexpr int kDays = 10;

std::string day(int number) { return "day_" + std::to_string(number); }

// Files of a preparation's vocabulary, one after another, with their names.
std::string vocabulary_of(const std::string& folder, size_t columns) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/vocabulary"))
    names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() == columns);
  std::string text;
  for (const std::string& name : names)
    text += std::filesystem::path(name).filename().string() + "\n" + read_text(name);
  return text;
}

// Each manifest lists the identities of all before it.
void check_chain(const std::vector<data::Manifest>& manifests) {
  std::vector<std::string> chain;
  for (const data::Manifest& manifest : manifests) {
    CHECK(manifest.continues == chain);
    chain.push_back(data::digits_of(manifest.identity()));
  }
}

CriteoPrepOptions criteo_options(const TemporaryDirectory& folder, std::vector<std::string> train,
                                 const std::string& out) {
  CriteoPrepOptions options;
  for (const std::string& name : train) options.train.push_back(folder / name);
  options.save_vocabulary = true;
  options.output.folder = folder / out;
  options.run.quiet = true;
  options.run.threads = 2;
  return options;
}

TEST_CASE("criteo_prep continued day after day gives the ids of one preparation of all days",
          "[threads]") {
  for (const int64_t min_count : {0, 1}) {
    INFO("min_count " << min_count);
    TemporaryDirectory folder;
    std::vector<std::string> files;
    std::vector<data::Manifest> manifests;
    std::string rows;
    for (int d = 0; d < kDays; ++d) {
      files.push_back(day(d) + ".tsv");
      // More tokens on later days.
      write_text(folder / files.back(), awkward_rows(static_cast<uint64_t>(d), 10 + 20 * d));
      CriteoPrepOptions options = criteo_options(folder, {files.back()}, day(d));
      if (d == 0) options.min_count = min_count;
      if (d == 0) options.max_ind_range = 0;  // else these tokens fall together
      if (d > 0) options.continue_from = folder / day(d - 1);
      manifests.push_back(criteo_prep(options));
      rows += read_text(folder / day(d) + "/train.bin");
    }
    CriteoPrepOptions options = criteo_options(folder, files, "all");
    options.min_count = min_count;
    options.max_ind_range = 0;
    const data::Manifest all = criteo_prep(options);
    CHECK((vocabulary_of(folder / day(kDays - 1), 26) == vocabulary_of(folder / "all", 26)));
    CHECK((rows == read_text(folder / "all" + "/train.bin")));
    CHECK(manifests.back().slot_sizes == all.slot_sizes);
    CHECK(manifests.back().identity() == all.identity());
    CHECK(manifests.front().slot_sizes[20] < all.slot_sizes[20]);
    check_chain(manifests);
    CHECK(data::Manifest::read(folder / day(3) + "/manifest.json").continues ==
          manifests[3].continues);
  }
}

// A row of Criteo's with one token in the last column.
std::string criteo_row(const std::string& token) {
  return "1" + std::string(13 + 26, '\t') + token + "\n";
}

TEST_CASE("with min_count known tokens stay when they are rare, and new ones need that many rows",
          "[threads]") {
  TemporaryDirectory folder;
  write_text(folder / "a.tsv", criteo_row("0000000a") + criteo_row("0000000b") +
                                   criteo_row("0000000a") + criteo_row("0000000b"));
  write_text(folder / "b.tsv", criteo_row("0000000c") + criteo_row("0000000d") +
                                   criteo_row("0000000b") + criteo_row("0000000d"));
  write_text(folder / "v.tsv", criteo_row("0000000a") + criteo_row("0000000c"));
  CriteoPrepOptions first = criteo_options(folder, {"a.tsv"}, "a");
  first.min_count = 2;
  criteo_prep(first);
  CriteoPrepOptions second = criteo_options(folder, {"b.tsv"}, "b");
  second.continue_from = folder / "a";
  second.val = {folder / "v.tsv"};
  const data::Manifest manifest = criteo_prep(second);
  const auto last_keys = [&](const char* file) {
    const std::string bytes = read_text(folder / "b/" + file);
    std::vector<uint32_t> keys;
    for (size_t end = 160; end <= bytes.size(); end += 160)
      std::memcpy(&keys.emplace_back(), bytes.data() + end - 4, 4);
    return keys;
  };
  // a is 1, b is 2 and d is the next; c came once only.
  CHECK(last_keys("train.bin") == std::vector<uint32_t>{0, 3, 2, 3});
  CHECK(last_keys("val.bin") == std::vector<uint32_t>{1, 0});
  CHECK(manifest.slot_sizes.back() == 4);
  REQUIRE(manifest.columns.back().splits.size() == 1);
  CHECK(manifest.columns.back().splits[0].unknown == 1);  // c; a was trained on before
}

constexpr const char* kDaySchema = R"({"header": true,
  "label": {"column": "buys", "positive": "yes", "negative": ["no"]},
  "dense": [{"column": "age", "transform": "standardize"}],
  "categorical": [{"column": "city"}, {"column": "colour"}]
})";

// With awkward texts, and more of them each day.
std::string csv_day(int d) {
  std::string text = "city,age,colour,buys\n";
  uint64_t counter = 0;
  const auto draw = [&](int below) {
    return static_cast<int>(random::word(static_cast<uint64_t>(d) + 1, 7, counter++) %
                            static_cast<uint32_t>(below));
  };
  for (int row = 0; row < 40; ++row) {
    text += draw(9) == 0 ? "" : fmt::format("\"ci\\ty,{}\"", draw(5 + 9 * d));
    text += fmt::format(",{},", 20 + d + draw(50));
    text += draw(9) == 0 ? "" : fmt::format("colour {}", draw(3));
    text += draw(2) == 0 ? ",yes\n" : ",no\n";
  }
  return text;
}

CsvPrepOptions csv_options(const TemporaryDirectory& folder, std::vector<std::string> train,
                           const std::string& out) {
  CsvPrepOptions options;
  options.schema = folder / "schema.json";
  for (const std::string& name : train) options.train.push_back(folder / name);
  options.output.folder = folder / out;
  options.run.quiet = true;
  options.run.threads = 2;
  return options;
}

TEST_CASE("csv_prep continued day after day gives the ids of one preparation of all days",
          "[threads]") {
  TemporaryDirectory folder;
  write_text(folder / "schema.json", kDaySchema);
  std::vector<std::string> files;
  std::vector<data::Manifest> manifests;
  std::vector<std::string> records;
  constexpr size_t kRecord = 16;
  const auto add_records = [](const std::string& bytes, std::vector<std::string>& to) {
    for (size_t at = 0; at < bytes.size(); at += kRecord) to.push_back(bytes.substr(at, kRecord));
  };
  for (int d = 0; d < kDays; ++d) {
    files.push_back(day(d) + ".csv");
    write_text(folder / files.back(), csv_day(d));
    CsvPrepOptions options = csv_options(folder, {files.back()}, day(d));
    if (d > 0) options.continue_from = folder / day(d - 1);
    manifests.push_back(csv_prep(options));
    add_records(read_text(folder / day(d) + "/train.bin"), records);
  }
  const data::Manifest all = csv_prep(csv_options(folder, files, "all"));
  CHECK((vocabulary_of(folder / day(kDays - 1), 2) == vocabulary_of(folder / "all", 2)));
  CHECK(manifests.back().slot_sizes == all.slot_sizes);
  CHECK(manifests.back().identity().slots == all.identity().slots);
  check_chain(manifests);
  std::vector<std::string> expected;
  add_records(read_text(folder / "all/train.bin"), expected);
  REQUIRE(records.size() == expected.size());
  for (size_t i = 0; i < records.size(); ++i) {  // label, age, city, colour
    CHECK(records[i].substr(0, 4) == expected[i].substr(0, 4));
    CHECK(records[i].substr(8) == expected[i].substr(8));
  }
  // Ages are standardized as on the first day, so one age is one number everywhere.
  CHECK(manifests.back().dense == manifests.front().dense);
  const auto age_of = [&](int d) {
    write_text(folder / "one.csv", "city,age,colour,buys\nRome,33,red,yes\n");
    CsvPrepOptions options = csv_options(folder, {"one.csv"}, "one" + std::to_string(d));
    options.continue_from = folder / day(d);
    csv_prep(options);
    return read_text(folder / "one" + std::to_string(d) + "/train.bin").substr(4, 4);
  };
  CHECK(age_of(0) == age_of(9));
}

TEST_CASE("a preparation that cannot be continued is refused, and nothing is written",
          "[threads]") {
  TemporaryDirectory folder;
  write_text(folder / "a.tsv", awkward_rows(1, 30));
  write_text(folder / "schema.json", kDaySchema);
  write_text(folder / "a.csv", csv_day(1));
  csv_prep(csv_options(folder, {"a.csv"}, "csv"));
  const auto prepare = [&](const char* out, const auto& change) {
    CriteoPrepOptions options = criteo_options(folder, {"a.tsv"}, out);
    change(options);
    criteo_prep(options);
  };
  prepare("good", [](auto&) {});
  prepare("hash", [](auto& o) { o.hash = 100, o.save_vocabulary = false; });
  prepare("frequency", [](auto& o) { o.by_frequency = true; });
  prepare("without", [](auto& o) { o.save_vocabulary = false; });
  prepare("lists", [](auto& o) { o.output.multi_hot = "dcnv2"; });
  const auto refused = [&](const std::string& before, const auto& change) {
    CriteoPrepOptions options = criteo_options(folder, {"a.tsv"}, "new");
    options.continue_from = folder / before;
    change(options);
    std::string message = message_of<Error>([&] { criteo_prep(options); });
    CHECK_FALSE(std::filesystem::exists(folder / "new/manifest.json"));
    return message;
  };
  const auto as_is = [](auto&) {};
  check_contains(refused("hash", as_is), {"--continue-from", "--hash", "the same in every"});
  check_contains(refused("frequency", as_is), {"order of first appearance", "frequency"});
  check_contains(refused("without", as_is), {"--save-vocabulary"});
  check_contains(refused("lists", as_is), {"--multi-hot dcnv2", "sizes of the tables"});
  check_contains(refused("csv", as_is), {"by criteo_prep", "csv_prep"});
  check_contains(refused("none", as_is), {"manifest.json"});
  check_contains(refused("good", [](auto& o) { o.output.multi_hot = "dcnv2"; }), {"--multi-hot"});
  check_contains(refused("good", [](auto& o) { o.min_count = 3; }), {"--min-count", "0", "3"});
  check_contains(refused("good", [](auto& o) { o.max_ind_range = 7; }),
                 {"--max-ind-range", "40000000", "7"});
  check_contains(refused("good", [](auto& o) { o.by_frequency = true; }), {"first appearance"});
  check_contains(refused("good", [&](auto& o) { o.output.folder = folder / "good"; }),
                 {"another folder than --out"});

  CsvPrepOptions options = csv_options(folder, {"a.csv"}, "new");
  options.continue_from = folder / "csv";
  std::string schema = kDaySchema;
  schema.replace(schema.find("standardize"), 11, "none");
  write_text(folder / "schema.json", schema);
  check_contains(message_of<ConfigError>([&] { csv_prep(options); }), {"--schema", "another one"});

  // A vocabulary that is not the manifest's.
  std::string tokens = read_text(folder / "good/vocabulary/25_C26.npy");
  tokens.back() ^= 1;
  write_text(folder / "good/vocabulary/25_C26.npy", tokens);
  check_contains(refused("good", as_is), {"25_C26.npy", "checksum"});
}

}  // namespace
}  // namespace hlite::prep
