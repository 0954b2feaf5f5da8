// Columns that share a vocabulary, against the ids that the definition gives them.
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/preparation/engine/stopped_runs.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::message_of;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;
using Strings = std::vector<std::string>;

constexpr const char* kItemSchema = R"({"header": true, "missing": "NA",
  "label": {"column": "buys", "positive": "1", "negative": ["0"]}, "dense": [{"column": "price"}],
  "categorical": [{"column": "viewed", "vocabulary": "item"}, {"column": "city"},
                  {"column": "bought", "vocabulary": "item"}]})";
constexpr int64_t kItemTrainRows = 2500, kItemValRows = 700;

// Row i: items of two columns that overlap, some of them rare, some in later rows only.
struct ItemRow {
  uint32_t buys, price;
  std::string tokens[3];
};

ItemRow item_row(int64_t i) {
  const auto draw = [&](uint64_t j, uint32_t below) {
    return random::word(11, j, static_cast<uint64_t>(i)) % below;
  };
  const uint32_t late = i > kItemTrainRows ? 400 : 300;
  ItemRow row{draw(0, 2),
              draw(1, 90),
              {fmt::format("i{}", draw(2, 1 + draw(3, late))), fmt::format("c{}", draw(4, 5)),
               fmt::format("i{}", 20 + draw(5, 1 + draw(6, late)))}};
  if (i % 7 == 3) row.tokens[0] = "";
  if (i % 11 == 5) row.tokens[2] = "NA";
  return row;
}

bool is_missing(const std::string& token) { return token.empty() || token == "NA"; }

std::string item_lines(int64_t begin, int64_t end) {
  std::string text = "price,bought,city,viewed,buys\n";
  for (int64_t i = begin; i < end; ++i) {
    const ItemRow row = item_row(i);
    text += fmt::format("{},{},\"{}\",{},{}\n", row.price, row.tokens[2], row.tokens[1],
                        row.tokens[0], row.buys);
  }
  return text;
}

// With nothing clever: what a category's id, a record and the counts are.
struct ItemOracle {
  Strings vocabulary[2];  // of items, of cities; id 0 first
  std::map<std::string, uint32_t> ids[2];
  std::map<std::string, int64_t> counts[2];
  int64_t min_count;

  explicit ItemOracle(int64_t least) : min_count(least) {
    for (auto& texts : vocabulary) texts.emplace_back();
    for_each_training_token([&](size_t table, const std::string& t) { ++counts[table][t]; });
    for_each_training_token([&](size_t table, const std::string& t) {
      if (counts[table][t] < min_count) return;
      const auto next = static_cast<uint32_t>(vocabulary[table].size());
      if (ids[table].emplace(t, next).second) vocabulary[table].push_back(t);
    });
  }
  template <typename Visit>
  static void for_each_training_token(Visit&& visit) {
    for (int64_t i = 0; i < kItemTrainRows; ++i) {
      const ItemRow row = item_row(i);
      for (const size_t slot : {0, 1, 2})
        if (!is_missing(row.tokens[slot])) visit(slot % 2, row.tokens[slot]);
    }
  }
  [[nodiscard]] uint32_t id(size_t slot, const std::string& token) const {
    const auto found = ids[slot % 2].find(token);
    return found == ids[slot % 2].end() ? 0 : found->second;
  }
  [[nodiscard]] std::string records(int64_t begin, int64_t end) const {
    std::string bytes;
    const auto put = [&](auto word) {
      bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
    };
    for (int64_t i = begin; i < end; ++i) {
      const ItemRow row = item_row(i);
      put(static_cast<float>(row.buys));
      put(static_cast<float>(row.price));
      for (const size_t slot : {0, 1, 2}) put(id(slot, row.tokens[slot]));
    }
    return bytes;
  }
  // Of each slot: how often each id is in the training rows.
  [[nodiscard]] std::vector<uint32_t> key_counts() const {
    std::vector<uint32_t> all;
    for (const size_t slot : {0, 1, 2}) {
      std::vector<uint32_t> of_slot(vocabulary[slot % 2].size());
      for (int64_t i = 0; i < kItemTrainRows; ++i) ++of_slot[id(slot, item_row(i).tokens[slot])];
      all.insert(all.end(), of_slot.begin(), of_slot.end());
    }
    return all;
  }
  [[nodiscard]] std::string text(size_t table) const {
    std::string lines;
    for (size_t i = 1; i < vocabulary[table].size(); ++i) lines += vocabulary[table][i] + "\n";
    return lines;
  }
};

struct ItemFiles {
  TemporaryDirectory folder;
  CsvPrepOptions options;
  ItemFiles() {
    write_text(folder / "schema.json", kItemSchema);
    write_text(folder / "a.csv", item_lines(0, 1000));
    write_text(folder / "b.csv", item_lines(1000, kItemTrainRows));
    write_text(folder / "val.csv", item_lines(kItemTrainRows, kItemTrainRows + kItemValRows));
    options.schema = folder / "schema.json";
    options.train = {folder / "a.csv", folder / "b.csv"};
    options.val = {folder / "val.csv"};
    options.output.folder = folder / "out";
    options.run.quiet = options.run.force = true;
    options.run.threads = 2;
    options.run.block_bytes = 5000;
  }
  [[nodiscard]] std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "out"))
      if (entry.is_regular_file() && entry.path().filename() != ".complete")
        files[fs::relative(entry.path(), folder / "out")] = read_text(entry.path());
    return files;
  }
};

}  // namespace

TEST_CASE("columns of one vocabulary are numbered as its definition says", "[threads]") {
  for (const int64_t min_count : {1, 2, 4}) {
    ItemFiles files;
    files.options.min_count = min_count;
    const data::Manifest manifest = csv_prep(files.options);
    const ItemOracle oracle(min_count);
    const auto written = files.all();
    CHECK(written.size() == 6);  // two splits, counts, two vocabularies, the manifest
    CHECK((written.at("train.bin") == oracle.records(0, kItemTrainRows)));
    CHECK((written.at("val.bin") == oracle.records(kItemTrainRows, kItemTrainRows + kItemValRows)));
    CHECK(written.at("vocabulary/00_item.txt") == oracle.text(0));
    CHECK(written.at("vocabulary/01_city.txt") == oracle.text(1));
    const std::vector<uint32_t> counts = oracle.key_counts();
    REQUIRE(written.at("key_counts.bin").size() == counts.size() * 4);
    CHECK(std::memcmp(written.at("key_counts.bin").data(), counts.data(), counts.size() * 4) == 0);

    const auto items = static_cast<int64_t>(oracle.vocabulary[0].size());
    CHECK(manifest.slot_sizes == std::vector<int64_t>{items, 6, items});
    CHECK(manifest.slot_tables == std::vector<int64_t>{0, 1, 0});
    CHECK(manifest.columns[0].vocabulary == manifest.columns[2].vocabulary);
    CHECK(manifest.columns[0].vocabulary != manifest.columns[1].vocabulary);
    for (const size_t slot : {0, 1, 2}) {
      int64_t rare = 0, unknown = 0, missing = 0;
      for (int64_t i = 0; i < kItemTrainRows + kItemValRows; ++i) {
        const std::string token = item_row(i).tokens[slot];
        const bool other = !is_missing(token) && oracle.id(slot, token) == 0;
        (i < kItemTrainRows ? rare : unknown) += other;
        missing += i >= kItemTrainRows && is_missing(token);
      }
      CHECK(manifest.columns[slot].out_of_vocabulary == rare);
      CHECK(manifest.columns[slot].splits[0].unknown == unknown);
      CHECK(manifest.columns[slot].splits[0].missing == missing);
    }
    const auto json = nlohmann::json::parse(written.at("manifest.json"));
    CHECK(json["slot_tables"] == std::vector<int>{0, 1, 0});
    const auto& features = json["features"]["categorical"];
    CHECK(features[0]["name"] == "viewed");
    CHECK(features[2]["name"] == "bought");
    for (const size_t slot : {0, 2}) {
      CHECK(features[slot]["vocabulary"] == "vocabulary/00_item.txt");
      CHECK(features[slot]["values_from_id_1"].size() == oracle.vocabulary[0].size() - 1);
    }
    check_contains(manifest.summary(), {fmt::format("2 tables, {} rows in all", items + 6),
                                        "\"slot_tables\": [0,1,0]"});
  }
}

TEST_CASE("a shared vocabulary depends neither on threads, memory nor on being interrupted",
          "[threads]") {
  ItemFiles files;
  files.options.min_count = 2;
  csv_prep(files.options);
  const auto expected = files.all();
  for (const int threads : {1, 3})
    for (const int64_t block : {200, 1 << 20}) {
      files.options.run.threads = threads;
      files.options.run.block_bytes = block;
      csv_prep(files.options);
      CHECK((files.all() == expected));
    }
  // Stopped at one point after the other, as by a crash.
  files.options.run.checkpoint_seconds = 0;
  files.options.run.block_bytes = 5000;
  for (const int stop : {1, 2, 3, 7, 30}) {
    fs::remove_all(files.folder / "out");
    const int runs =
        runs_until_done(files.options.run, stop, 12 * stop, [&] { csv_prep(files.options); });
    CHECK(runs >= 2);
    CHECK((files.all() == expected));
  }
  // With as little memory for numbering as will do: table after table.
  int refused = 0;
  for (int64_t bytes = 4000;; bytes += bytes / 8) {
    fs::remove_all(files.folder / "out");
    files.options.run.numbering_bytes = bytes;
    try {
      csv_prep(files.options);
      break;
    } catch (const DataError& error) {
      ++refused;
      check_contains(error.what(), {"MiB of memory after", "distinct keys"});
      if (std::string(error.what()).find("column city") == std::string::npos)
        check_contains(error.what(), {"columns viewed, bought: needs"});
    }
  }
  CHECK(refused > 3);
  CHECK((files.all() == expected));
}

TEST_CASE("names of vocabularies that do not help are errors by place") {
  ItemFiles files;
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string schema = kItemSchema;
    schema.replace(schema.find(from), from.size(), to);
    write_text(files.folder / "schema.json", schema);
    return message_of<ConfigError>([&] { csv_prep(files.options); });
  };
  check_contains(error("\"vocabulary\": \"item\"", "\"vocabulary\": \"itm\""),
                 {"schema.json:3", "categorical[0].vocabulary",
                  "expected a name that another categorical column has too, found \"itm\""});
  check_contains(error("\"vocabulary\": \"item\"", "\"vocabulary\": \"\""),
                 {"categorical[0].vocabulary", "expected a name"});
  check_contains(error("\"vocabulary\": \"item\"", "\"vocabulary\": 3"),
                 {"categorical[0].vocabulary", "found 3"});
}

}  // namespace hlite::prep
