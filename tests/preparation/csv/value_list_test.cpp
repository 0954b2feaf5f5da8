// Columns of several values, and columns that share a vocabulary, compared with the ids and records
// that their definitions give.
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "data_reader/raw_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/no_key.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"
#include "hugectr_lite/preparation/models/first_config.h"
#include "tests/preparation/csv/csv_prep_case.h"
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
using Tokens = std::vector<std::string>;

constexpr int64_t kFilmRows = 1709, kFilmValRows = 401;
constexpr size_t kMostTags = 5;
constexpr const char* kFilmSchema = R"({"header": true, "trim": true, "missing": "NA",
  "label": {"column": "liked", "positive": "1", "negative": ["0"]}, "dense": [{"column": "year"}],
  "categorical": [{"column": "tags", "separator": " :: ", "max_values": 5, "vocabulary": "tag"},
                  {"column": "town", "vocabulary": "town"}, {"column": "best", "vocabulary": "tag"},
                  {"column": "studio", "vocabulary": "town"}]})";
// Slots with even numbers have tags, the others towns.
constexpr size_t kFilmSlots[] = {0, 1, 2, 3};

// Row i: 0 to 5 tags, some of them twice, rare or missing; a column of one tag; and two columns of
// towns, which overlap. Some values are in validation rows only.
struct FilmRow {
  uint32_t liked, year;
  Tokens tags;  // as written
  std::string town, best, studio;
};

FilmRow film_row(int64_t i) {
  const auto draw = [&](uint64_t j, uint32_t below) {
    return random::word(23, j, static_cast<uint64_t>(i)) % below;
  };
  const uint32_t late = i >= kFilmRows ? 90 : 70;
  const auto tag = [&](uint64_t j) { return fmt::format("ü{}", draw(j, 1 + draw(j + 50, late))); };
  FilmRow row{draw(0, 2), 1900 + draw(1, 120),
              {},         fmt::format("t{}", draw(2, 7)),
              tag(3),     fmt::format("t{}", 4 + draw(6, 1 + draw(7, late)))};
  for (uint32_t k = 0; k < draw(4, kMostTags + 1); ++k) row.tags.push_back(tag(10 + k));
  if (i % 13 == 4) row.tags = {"NA"};
  if (i % 17 == 6 && !row.tags.empty()) row.tags.back() = "NA";
  if (i % 9 == 2) row.best.clear();
  if (i % 11 == 5) row.studio = "NA";
  return row;
}

std::string film_lines(int64_t begin, int64_t end) {
  std::string text = "best,tags,liked,town,year,studio\n";
  for (int64_t i = begin; i < end; ++i) {
    const FilmRow row = film_row(i);
    std::string tags;
    for (const std::string& tag : row.tags) tags += (tags.empty() ? "" : " ::  ") + tag;
    if (i % 5 == 1) tags += " :: ";  // after which there is no value
    text += fmt::format("{},\"{}\",{},{},{},{}\n", row.best, tags, row.liked, row.town, row.year,
                        row.studio);
  }
  return text;
}

Tokens present(const Tokens& values) {
  Tokens tokens;
  for (const std::string& value : values)
    if (!value.empty() && value != "NA") tokens.push_back(value);
  return tokens;
}
Tokens slot_tokens(const FilmRow& row, size_t slot) {
  return present(slot == 0 ? row.tags
                           : Tokens{slot == 1   ? row.town
                                    : slot == 2 ? row.best
                                                : row.studio});
}

// The ids of values, the records and the counts, computed from their definitions.
struct FilmOracle {
  Tokens vocabulary[2];  // of tags, of towns; id 0 first
  std::map<std::string, uint32_t> ids[2];
  explicit FilmOracle(int64_t least) {
    std::map<std::string, int64_t> counts[2];
    for (auto& texts : vocabulary) texts.emplace_back();
    for (const bool counted : {false, true})
      for (int64_t i = 0; i < kFilmRows; ++i)
        for (const size_t slot : kFilmSlots)
          for (const std::string& token : slot_tokens(film_row(i), slot)) {
            if (!counted) {
              ++counts[slot % 2][token];
            } else if (counts[slot % 2][token] >= least) {
              auto& texts = vocabulary[slot % 2];
              if (ids[slot % 2].emplace(token, static_cast<uint32_t>(texts.size())).second)
                texts.push_back(token);
            }
          }
  }
  [[nodiscard]] std::vector<uint32_t> ids_of(const FilmRow& row, size_t slot) const {
    std::vector<uint32_t> found;
    for (const std::string& token : slot_tokens(row, slot)) {
      const auto at = ids[slot % 2].find(token);
      found.push_back(at == ids[slot % 2].end() ? 0 : at->second);
    }
    if (found.empty()) found.push_back(0);
    return found;
  }
  [[nodiscard]] std::string records(int64_t begin, int64_t end) const {
    std::string bytes;
    const auto put = [&](auto word) {
      bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
    };
    for (int64_t i = begin; i < end; ++i) {
      const FilmRow row = film_row(i);
      put(row.liked);
      put(static_cast<float>(row.year));
      for (const size_t slot : kFilmSlots) {
        std::vector<uint32_t> keys = ids_of(row, slot);
        keys.resize(slot == 0 ? kMostTags : 1, kNoKey);
        for (const uint32_t key : keys) put(key);
      }
    }
    return bytes;
  }
  // Counts how often each id is in the training rows, for each slot.
  [[nodiscard]] std::vector<uint32_t> key_counts(size_t slot) const {
    std::vector<uint32_t> counts(vocabulary[slot % 2].size());
    for (int64_t i = 0; i < kFilmRows; ++i)
      for (const uint32_t id : ids_of(film_row(i), slot)) ++counts[id];
    return counts;
  }
};

struct FilmFiles : Files {
  FilmFiles() {
    write_text(folder / "schema.json", kFilmSchema);
    write_text(folder / "train.csv", film_lines(0, kFilmRows));
    write_text(folder / "val.csv", film_lines(kFilmRows, kFilmRows + kFilmValRows));
    options.val = {folder / "val.csv"};
    options.run.restart = false;
    options.run.block_bytes = 5000;
  }
};

TEST_CASE("the values of a field are numbered one after the other, as the definition says",
          "[threads]") {
  for (const int64_t min_count : {1, 3, 9}) {
    FilmFiles files;
    files.options.min_count = min_count;
    const data::Manifest manifest = csv_prep(files.options);
    const FilmOracle oracle(min_count);
    const auto written = files.all();
    CHECK((written.at("train.bin") == oracle.records(0, kFilmRows)));
    CHECK((written.at("val.bin") == oracle.records(kFilmRows, kFilmRows + kFilmValRows)));
    for (const size_t table : {0, 1}) {
      std::string lines;
      for (size_t i = 1; i < oracle.vocabulary[table].size(); ++i)
        lines += oracle.vocabulary[table][i] + "\n";
      CHECK(written.at(table == 0 ? "vocabulary/00_tag.txt" : "vocabulary/01_town.txt") == lines);
    }
    std::string counts;
    for (const size_t slot : kFilmSlots) {
      const std::vector<uint32_t> of_slot = oracle.key_counts(slot);
      counts.append(reinterpret_cast<const char*>(of_slot.data()), of_slot.size() * 4);
      int64_t rare = 0, unknown = 0, missing = 0, values = 0;
      for (int64_t i = 0; i < kFilmRows + kFilmValRows; ++i) {
        const FilmRow row = film_row(i);
        const std::vector<uint32_t> ids = oracle.ids_of(row, slot);
        const bool none = slot_tokens(row, slot).empty();
        const bool other = !none && std::count(ids.begin(), ids.end(), 0u) > 0;
        (i < kFilmRows ? rare : unknown) += other;
        missing += none && i >= kFilmRows;
        if (i < kFilmRows) values += std::ssize(ids);
      }
      const data::ManifestColumn& column = manifest.columns[slot];
      CHECK(column.out_of_vocabulary == rare);
      CHECK(column.splits[0].unknown == unknown);
      CHECK(column.splits[0].missing == missing);
      CHECK(column.top_share[0] ==
            Approx(static_cast<double>(*std::max_element(of_slot.begin(), of_slot.end())) /
                   static_cast<double>(values)));
    }
    CHECK((written.at("key_counts.bin") == counts));
    const auto tags = static_cast<int64_t>(oracle.vocabulary[0].size());
    const auto towns = static_cast<int64_t>(oracle.vocabulary[1].size());
    CHECK(manifest.slot_sizes == std::vector<int64_t>{tags, towns, tags, towns});
    CHECK(manifest.slot_tables == std::vector<int64_t>{0, 1, 0, 1});
    CHECK(manifest.hotness == std::vector<int64_t>{5, 1, 1, 1});
    const auto json = nlohmann::json::parse(written.at("manifest.json"));
    CHECK(json["slot_tables"] == std::vector<int>{0, 1, 0, 1});
    for (const size_t slot : kFilmSlots) {
      const auto& feature = json["features"]["categorical"][slot];
      const size_t table = slot % 2;
      CHECK(feature["vocabulary"] ==
            (table == 0 ? "vocabulary/00_tag.txt" : "vocabulary/01_town.txt"));
      CHECK(feature["values_from_id_1"].size() == oracle.vocabulary[table].size() - 1);
    }
    check_contains(manifest.summary(), {fmt::format("2 tables, {} rows in all", tags + towns),
                                        "\"slot_tables\": [0,1,0,1]"});
    CHECK_FALSE(manifest.fixed_length);
    CHECK(manifest.format == "multi_hot_raw");
    CHECK(manifest.rules.back().value == R"(at most 5 values between "::")");
    check_contains(prep::first_config("dcnv2", manifest, "films/"),
                   {R"("nnz_per_slot": [5, 1, 1, 1], "is_fixed_length": false)",
                    R"("type": "HybridSparseEmbedding")", R"("slot_tables": [0, 1, 0, 1])"});
  }
}

TEST_CASE(
    "lists and shared vocabularies depend neither on threads, blocks, memory nor on interruptions",
    "[threads]") {
  FilmFiles files;
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
  files.options.run.checkpoint_seconds = 0;
  files.options.run.block_bytes = 5000;
  for (const int stop : {1, 3, 7, 30}) {
    fs::remove_all(files.folder / "out");
    CHECK(runs_until_done(files.options.run, stop, 12 * stop, [&] { csv_prep(files.options); }) >=
          2);
    CHECK((files.all() == expected));
  }
  // With as little memory for numbering as will do: table after table.
  int refused = 0;
  for (int64_t bytes = 1000;; bytes += bytes / 8) {
    fs::remove_all(files.folder / "out");
    files.options.run.numbering_bytes = bytes;
    try {
      csv_prep(files.options);
      break;
    } catch (const DataError& error) {
      ++refused;
      check_contains(error.what(), {"MiB of memory after", "distinct keys", "columns ", ": needs"});
    }
  }
  CHECK(refused > 3);
  CHECK((files.all() == expected));
}

TEST_CASE("lines with lists get the records that csv_prep gave them, and its ids go on",
          "[threads]") {
  FilmFiles files;
  files.options.min_count = 2;
  csv_prep(files.options);
  const Preparation preparation(files.folder / "out", Labels::kThere);
  CHECK(preparation.format().keys.hotness == std::vector<int64_t>{5, 1, 1, 1});
  CHECK(preparation.format().varies(0));
  InputFile file(files.folder / "val.csv", preparation.parser().text_form());
  const BlockParser blocks(preparation.parser().layout(), PrepOptions{});
  LineBlock lines;
  std::unique_ptr<const LineParser> parser;
  std::string bytes;
  data::UnknownValues unknown(4);
  for (ParsedRows rows; file.next(lines, 3000);) {
    if (!parser) parser = preparation.parser().open("val.csv", lines.front());
    blocks.parse(lines, 0, *parser, rows);
    REQUIRE(rows.bad.empty());
    EncodedRows records;
    preparation.encode(rows, records, unknown);
    bytes.append(reinterpret_cast<const char*>(records.bytes.data()), records.bytes.size());
  }
  CHECK((bytes == read_text(files.folder / "out/val.bin")));
  const data::Manifest manifest = data::Manifest::read(files.folder / "out/manifest.json");
  CHECK_FALSE(manifest.fixed_length);
  for (const size_t slot : kFilmSlots) {
    CHECK(unknown.unknown[slot] == manifest.columns[slot].splits[0].unknown);
    CHECK(unknown.missing[slot] == manifest.columns[slot].splits[0].missing);
  }

  // The next day: all ids stay, and those of values that are new follow.
  CsvPrepOptions next = files.options;
  next.schema.clear();
  next.continue_from = files.folder / "out";
  next.train = {files.folder / "val.csv"};
  next.val.clear();
  next.output.folder = files.folder / "next";
  csv_prep(next);
  const std::string before = read_text(files.folder / "out/vocabulary/00_tag.txt"),
                    after = read_text(files.folder / "next/vocabulary/00_tag.txt");
  CHECK(after.starts_with(before));
  CHECK(after.size() > before.size());
}

TEST_CASE("Norm files have the values alone", "[threads]") {
  FilmFiles files;
  files.options.output.format = OutputFormat::kNorm;
  files.options.output.norm_sum = false;
  files.options.output.norm_rows_per_file = 5000;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK_FALSE(manifest.fixed_length);
  const FilmOracle oracle(1);
  std::string expected;
  const auto put = [&](auto word) {
    expected.append(reinterpret_cast<const char*>(&word), sizeof(word));
  };
  for (int64_t i = 0; i < kFilmRows; ++i) {
    const FilmRow row = film_row(i);
    put(static_cast<float>(row.liked));
    put(static_cast<float>(row.year));
    for (const size_t slot : kFilmSlots) {
      const std::vector<uint32_t> keys = oracle.ids_of(row, slot);
      put(static_cast<int32_t>(keys.size()));
      for (const uint32_t key : keys) put(key);
    }
  }
  const std::string found = read_text(files.folder / "out/train_norm/00000.norm");
  REQUIRE(found.size() > expected.size());
  CHECK((found.substr(found.size() - expected.size()) == expected));
}

// The records of lines "label,tags" with this block of a column.
std::string prepared_lists(const std::string& block, const std::string& lines,
                           const std::string& top = "") {
  Files files;
  write_text(files.folder / "schema.json", R"({"label": {"column": 0, "positive": "1"}, )" + top +
                                               R"("categorical": [{"column": 1, "name": "tags", )" +
                                               block + "}]}");
  write_text(files.folder / "train.csv", lines);
  csv_prep(files.options);
  return files.out("train.bin") + files.out("vocabulary/00_tags.txt");
}

TEST_CASE("values of a field: none, one, twice, blank, quoted, too many", "[threads]") {
  const auto records = [](const std::vector<std::vector<uint32_t>>& rows, const char* texts) {
    std::string bytes;
    uint32_t label = 1;
    for (std::vector<uint32_t> row : rows) {
      row.resize(3, kNoKey);
      row.insert(row.begin(), label);
      label = 1 - label;
      bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * 4);
    }
    return bytes + texts;
  };
  const std::string list = R"("separator": "|", "max_values": 3)";
  CHECK(prepared_lists(list, "1,a\n0,\n1,b|a|b\n0,|\n1,||c|\n") ==
        records({{1}, {0}, {2, 1, 2}, {0}, {3}}, "a\nb\nc\n"));
  // Blanks are values but with "trim"; a missing text is none.
  CHECK(prepared_lists(list, "1,a| b\n0, |?\n", R"("missing": "?", )") ==
        records({{1, 2}, {3}}, "a\n b\n \n"));
  CHECK(prepared_lists(list, "1,a| b\n0, |?\n", R"("missing": "?", "trim": true, )") ==
        records({{1, 2}, {0}}, "a\nb\n"));
  // The separator of fields may be one of values, too.
  CHECK(prepared_lists(R"("separator": ",", "max_values": 3)", "1,\"a,\"\"b\"\"\"\n0,a\n") ==
        records({{1, 2}, {1}}, "a\n\"b\"\n"));
  CHECK(prepared_lists(list + R"(, "truncate": true)", "1,a|b|c|d|e\n0,x||b|a\n") ==
        records({{1, 2, 3}, {4, 2, 1}}, "a\nb\nc\nx\n"));
  check_contains(
      message_of<DataError>([&] { prepared_lists(list, "1,a\n0,a||b|a|c\n"); }),
      {"train.csv:2: column 1 (tags): expected at most 3 values with \"|\" between them, found 4; "
       "\"max_values\": 4 in its block takes them all, \"truncate\": true the first 3, "
       "\"keep\": \"last\" the last"});
}

TEST_CASE("lists may keep their last values, and histories have none where a field has none") {
  const std::string list = R"("separator": "|", "max_values": 3, )";
  const auto last = prepared_lists(list + R"("keep": "last")", "1,a|b|c|d|e\n0,\n1,b||a\n");
  const auto kept = prepared_lists(list + R"("history": "seen")", "1,a|b|c|d|e\n0,\n1,b||a\n");
  CHECK(prepared_lists(list + R"("keep": "first")", "1,a|b|c|d|e\n0,\n") ==
        prepared_lists(list + R"("truncate": true)", "1,a|b|c|d|e\n0,\n"));
  const auto words = [](const std::string& bytes) {
    std::vector<uint32_t> found(12);
    std::memcpy(found.data(), bytes.data(), 48);
    return found;
  };
  // c, d, e; nothing; b, a: in the order in which training rows have them.
  CHECK(words(last) == std::vector<uint32_t>{1, 1, 2, 3, 0, 0, kNoKey, kNoKey, 1, 4, 5, kNoKey});
  CHECK(words(kept) ==
        std::vector<uint32_t>{1, 1, 2, 3, 0, kNoKey, kNoKey, kNoKey, 1, 4, 5, kNoKey});
}

TEST_CASE("columns of one history have equally many values, and the manifest says what they are") {
  const TemporaryDirectory folder;
  const std::string history = R"("separator": "|", "max_values": 2, "history": "clicks")";
  const auto prepare_with = [&](const std::string& columns, const std::string& lines) {
    fs::remove_all(folder / "out");
    write_text(folder / "schema.json",
               R"({"label": {"column": 0, "positive": "1"}, "categorical": [)" + columns + "]}");
    write_text(folder / "train.csv", lines);
    CsvPrepOptions options;
    options.schema = folder / "schema.json";
    options.train = {folder / "train.csv"};
    options.output.folder = folder / "out";
    options.run.quiet = true;
    csv_prep(options);
  };
  const std::string items = R"({"column": 1, "name": "items", )" + history + "}",
                    cates = R"({"column": 2, "name": "cates", )" + history + "}",
                    user = R"({"column": 3, "name": "user"})";
  prepare_with(user + "," + items + "," + cates, "1,a|b|c,x|y|z,u\n0,,,v\n1,a,y,u\n");
  const auto manifest = data::Manifest::read(folder / "out/manifest.json");
  REQUIRE(manifest.histories.size() == 1);
  CHECK(manifest.histories[0].name == "clicks");
  CHECK(manifest.histories[0].first_slot == 1);
  CHECK(manifest.histories[0].slots == 2);
  const Preparation preparation(folder / "out", Labels::kAbsent);
  config::DataConfig config;
  config.format = &config::data_format("RawAsync");
  config.label_dim = 1;
  config.sparse.resize(2);
  config.sparse[0].slot_num = 1;
  config.sparse[0].hotness = {1};
  config.sparse[1].slot_num = 2;
  config.sparse[1].hotness = {2, 2};
  check_contains(message_of<DataError>([&] { preparation.check_fits(config, "x"); }),
                 {"x: expected histories (max_len) in the slots"});
  config.sparse[1].max_len = 2;
  preparation.check_fits(config, "x");
  const auto refused = [&](const std::string& columns, const std::string& lines = "1,a,x,u\n") {
    try {
      prepare_with(columns, lines);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  check_contains(refused(items + "," + cates, "1,a|b|c,x|y,u\n"),
                 {"train.csv:1: column 1 (items) and column 2 (cates): expected equally many keys, "
                  "as they are one history, found 3 and 2"});
  check_contains(refused(items + "," + user + "," + cates), {"one after the other"});
  check_contains(refused(items + "," + R"({"column": 2, "separator": "|", "max_values": 3,
                                           "history": "clicks"})"),
                 {"expected 2, as the first column of the history has"});
  check_contains(refused(R"({"column": 1, "history": "clicks"})"), {"is required with it"});
  check_contains(refused(R"({"column": 1, "separator": "|", "max_values": 3, "keep": "first",
                             "history": "clicks"})"),
                 {"a history keeps its latest values"});
}

TEST_CASE("lists that cannot be are refused by place") {
  const auto refused = [](const std::string& block) {
    return message_of<ConfigError>([&] { prepared_lists(block, "1,a\n"); });
  };
  check_contains(
      refused(R"("separator": "|")"),
      {"categorical[0].separator: \"max_values\", the maximum number of values in a field, is required with it"});
  check_contains(
      refused(R"("max_values": 3)"),
      {"categorical[0].max_values: \"separator\", the text between the values of a field, is required with it"});
  check_contains(
      refused(R"("truncate": true)"),
      {"truncate: \"separator\", the text between the values of a field, is required with it"});
  check_contains(refused(R"("separator": "", "max_values": 3)"),
                 {"separator: expected the text between the values of a field"});
  for (const char* most : {"1", "1001", "\"3\""})
    check_contains(refused(fmt::format(R"("separator": "|", "max_values": {})", most)),
                   {"categorical[0].max_values: expected an integer in [2, 1000], found "});
  check_contains(refused(R"("separator": "|", "max_values": 3, "date": {"format": "%Y", "parts":
                         ["year"]})"),
                 {"separator: expected a date or a field of several values, found both"});
  check_contains(refused(R"("buckets": [1], "separator": "|", "max_values": 3)"),
                 {"categorical[0]", "unknown key"});
  check_contains(refused(R"("separator": "|", "max_values": 3}, {"cross": ["tags", "tags"])"),
                 {"categorical[1].cross[0]: expected a column of one value"});
  std::string many = R"("separator": "|", "max_values": 1000)";
  for (int i = 0; i < 66; ++i) many += R"(}, {"column": 1, "separator": "|", "max_values": 1000)";
  check_contains(refused(many),
                 {"categorical: expected at most 65536 values in all columns together "
                  "(max_values), found 67000"});
  FilmFiles files;
  files.options.output.multi_hot = "1,2,3,4";
  check_contains(message_of<ConfigError>([&] { csv_prep(files.options); }),
                 {"--multi-hot 1,2,3,4: expected none with columns of several values"});
}

TEST_CASE("a vocabulary that no other column shares is an error with its place") {
  const FilmFiles files;
  for (const auto& [name, error] :
       {std::pair("\"towns\"",
                  "expected a name that another categorical column has too, found \"towns\""),
        std::pair("\"\"", "expected a name"), std::pair("3", "found 3")}) {
    std::string schema = kFilmSchema;
    const std::string from = "\"vocabulary\": \"town\"";
    schema.replace(schema.find(from), from.size(), std::string("\"vocabulary\": ") + name);
    write_text(files.folder / "schema.json", schema);
    check_contains(message_of<ConfigError>([&] { csv_prep(files.options); }),
                   {"schema.json:4", "categorical[1].vocabulary", error});
  }
}

}  // namespace
}  // namespace hlite::prep
