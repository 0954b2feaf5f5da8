#include "hugectr_lite/preparation/criteo/criteo_prep.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/preparation/io/gzip_file.h"
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

// Whether the folder holds a result, or a piece of one.
bool has_results(const TemporaryDirectory& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    if (name.find(".bin") != std::string::npos || name.find("manifest") != std::string::npos) {
      return true;
    }
  }
  return false;
}

CriteoPrepOptions options_for(const TemporaryDirectory& folder, std::vector<std::string> train,
                              std::vector<std::string> val = {}) {
  CriteoPrepOptions options;
  for (const std::string& name : train) options.train.push_back(folder / name);
  for (const std::string& name : val) options.val.push_back(folder / name);
  options.output.folder = folder.path();
  options.run.quiet = options.run.force = true;
  return options;
}

TEST_CASE("criteo_prep gives the bytes of a plain implementation, for any threads and blocks",
          "[threads]") {
  TemporaryDirectory folder;
  const std::string a = awkward_rows(1, 701), b = awkward_rows(2, 333, false),
                    v = awkward_rows(3, 150);
  write_text(folder / "a.tsv", a);
  test::write_gzip(folder / "b.tsv.gz", b);
  write_text(folder / "v.tsv", v);
  const std::vector<OracleRow> rows = oracle_rows(a + b + (b.back() == '\n' ? "" : "\n") + v);
  REQUIRE(rows.size() == 701 + 333 + 150);
  const OracleData expected = oracle_data(rows, 701 + 333);
  std::string manifest_text;
  for (const int threads : {1, 2, 3, 7}) {
    for (const int64_t block_bytes : {int64_t{700}, int64_t{9973}, int64_t{1} << 20}) {
      INFO("threads " << threads << ", blocks of " << block_bytes);
      CriteoPrepOptions options = options_for(folder, {"a.tsv", "b.tsv.gz"}, {"v.tsv"});
      options.run.threads = threads;
      options.run.block_bytes = block_bytes;
      options.run.checkpoint_seconds = threads == 3 ? 0 : 1;
      const data::Manifest manifest = criteo_prep(options);
      CHECK((read_text(folder / "train.bin") == expected.bytes(0, 701 + 333)));
      CHECK((read_text(folder / "val.bin") == expected.bytes(701 + 333, 150)));
      REQUIRE(manifest.slot_sizes.size() == 26);
      std::string counts;
      for (size_t k = 0; k < 26; ++k) {
        const std::vector<uint32_t>& column = expected.columns[k].counts;
        CHECK(manifest.slot_sizes[k] == static_cast<int64_t>(column.size()));
        counts.append(reinterpret_cast<const char*>(column.data()), 4 * column.size());
      }
      CHECK((read_text(folder / "key_counts.bin") == counts));
      const std::string text = read_text(folder / "manifest.json");
      if (manifest_text.empty()) manifest_text = text;
      CHECK(text == manifest_text);
      CHECK(folder.entries() == 3 + 5);  // no work folder is left
    }
  }

  const auto json = nlohmann::json::parse(manifest_text);
  CHECK(json["dense_dim"] == 13);
  CHECK(json["slot_num"] == 26);
  CHECK(json["record"]["bytes"] == 160);
  CHECK(json["float_label_dense"] == false);
  CHECK(json["files"]["train"]["rows"] == 701 + 333);
  CHECK(json["files"]["train"]["bytes"] == (701 + 333) * 160);
  CHECK(json["files"]["val"]["rows"] == 150);
  int64_t positives = 0;
  for (size_t i = 701 + 333; i < rows.size(); ++i) positives += rows[i].label;
  CHECK(json["files"]["val"]["label_rate"].get<double>() == static_cast<double>(positives) / 150.0);
  CHECK(json["sources"].size() == 3);
  CHECK(json["sources"][1]["bytes"] == b.size());
  // "slot_size_array" stands on one line, for shells.
  check_contains(manifest_text,
                 {fmt::format("\"slot_size_array\": [{}]",
                              fmt::join(json["slot_size_array"].get<std::vector<int>>(), ","))});
  for (size_t k = 0; k < 26; ++k) {
    int64_t missing = 0;
    for (size_t i = 0; i < 701 + 333; ++i) missing += rows[i].missing[k];
    CHECK(json["columns"][k]["missing"] == missing);
    CHECK(json["columns"][k]["name"] == fmt::format("C{}", k + 1));
  }
}

TEST_CASE("the key range is an option, 0 keeps tokens whole", "[threads]") {
  TemporaryDirectory folder;
  const std::string text = awkward_rows(4, 50);
  write_text(folder / "a.tsv", text);
  for (const uint32_t range : {0u, 1u, 7u, 20000000u, 0xffffffffu}) {
    const auto rows = oracle_rows(text, range == 0 ? uint64_t{1} << 32 : uint64_t{range});
    CriteoPrepOptions options = options_for(folder, {"a.tsv"});
    options.max_ind_range = range;
    criteo_prep(options);
    CHECK((read_text(folder / "train.bin") == oracle_data(rows, 50).bytes(0, 50)));
  }
}

TEST_CASE("every recipe gives the ids of its definition", "[threads]") {
  TemporaryDirectory folder;
  const std::string a = awkward_rows(11, 400), v = awkward_rows(12, 300);
  write_text(folder / "a.tsv", a);
  write_text(folder / "v.tsv", v);
  const OracleRecipe recipes[] = {{.min_count = 1},
                                  {.min_count = 4},
                                  {.min_count = 100000},
                                  {.by_frequency = true},
                                  {.min_count = 3, .by_frequency = true},
                                  {.hash = 1},
                                  {.hash = 97}};
  for (const OracleRecipe& recipe : recipes) {
    INFO("hash " << recipe.hash << ", min_count " << recipe.min_count << ", by frequency "
                 << recipe.by_frequency);
    CriteoPrepOptions options = options_for(folder, {"a.tsv"}, {"v.tsv"});
    options.hash = recipe.hash;
    options.min_count = recipe.min_count;
    options.by_frequency = recipe.by_frequency;
    const uint64_t range = recipe.hash > 0 ? uint64_t{1} << 32 : 40000000;
    const OracleData expected = oracle_data(oracle_rows(a + v, range), 400, recipe);
    const data::Manifest manifest = criteo_prep(options);
    CHECK((read_text(folder / "train.bin") == expected.bytes(0, 400)));
    CHECK((read_text(folder / "val.bin") == expected.bytes(400, 300)));
    for (size_t k = 0; k < 26; ++k) {
      const OracleColumn& column = expected.columns[k];
      CHECK(manifest.columns[k].rows == static_cast<int64_t>(column.counts.size()));
      CHECK(manifest.columns[k].out_of_vocabulary == column.dropped);
      std::vector<uint32_t> sorted = column.counts;
      std::sort(sorted.rbegin(), sorted.rend());
      uint32_t sum = 0;
      for (size_t i = 0; i < std::min<size_t>(10, sorted.size()); ++i) sum += sorted[i];
      CHECK(manifest.columns[k].top_share[1] == sum / 400.0);
      CHECK(manifest.columns[k].distinct ==
            std::count_if(sorted.begin(), sorted.end(), [](uint32_t n) { return n > 0; }));
    }
  }
}

TEST_CASE("columns that do not fit the memory side by side are numbered one by one, or named",
          "[threads]") {
  TemporaryDirectory folder;
  const std::string text = awkward_rows(15, 3000);
  write_text(folder / "a.tsv", text);
  const OracleData expected = oracle_data(oracle_rows(text), 3000);
  CriteoPrepOptions options = options_for(folder, {"a.tsv"});
  options.run.threads = 3;
  bool refused = false, fitted = false;
  for (int64_t bytes = 10000; !fitted; bytes += 1000) {
    options.run.numbering_bytes = bytes;
    options.run.restart = bytes % 2000 == 0;
    try {
      criteo_prep(options);
      fitted = true;
    } catch (const DataError& error) {
      refused = true;
      check_contains(error.what(), {"column C", "MiB", "distinct keys", "--memory", "--hash"});
      CHECK_FALSE(has_results(folder));
    }
  }
  CHECK(refused);
  CHECK((read_text(folder / "train.bin") == expected.bytes(0, 3000)));
}

TEST_CASE("a sample keeps about its share of the rows, the same ones for any threads and blocks",
          "[threads]") {
  TemporaryDirectory folder;
  const std::string a = awkward_rows(13, 3000), v = awkward_rows(14, 500);
  write_text(folder / "a.tsv", a);
  write_text(folder / "v.tsv", v);
  std::string train, val;
  for (const int threads : {1, 3}) {
    CriteoPrepOptions options = options_for(folder, {"a.tsv"}, {"v.tsv"});
    options.run.sample = 0.2;
    options.run.threads = threads;
    options.run.block_bytes = 5000 * threads;
    const data::Manifest manifest = criteo_prep(options);
    CHECK(manifest.files[0].rows > 480);
    CHECK(manifest.files[0].rows < 720);
    if (threads == 1) train = read_text(folder / "train.bin"), val = read_text(folder / "val.bin");
    CHECK((read_text(folder / "train.bin") == train));
    CHECK((read_text(folder / "val.bin") == val));
    options.output.seed = 5;
    criteo_prep(options);
    CHECK((read_text(folder / "train.bin") != train));
  }
}

TEST_CASE("with --split-last-half, prep halves the last file, the odd row in val", "[threads]") {
  TemporaryDirectory folder;
  const std::string a = awkward_rows(5, 40), b = awkward_rows(6, 21);
  write_text(folder / "a.tsv", a);
  write_text(folder / "b.tsv", b);
  const OracleData expected = oracle_data(oracle_rows(a + b), 40);
  CriteoPrepOptions options = options_for(folder, {"a.tsv", "b.tsv"});
  options.split_last_half = true;
  criteo_prep(options);
  CHECK((read_text(folder / "train.bin") == expected.bytes(0, 40)));
  CHECK((read_text(folder / "val.bin") == expected.bytes(40, 11)));
  CHECK((read_text(folder / "test.bin") == expected.bytes(51, 10)));
  CHECK(folder.entries() == 2 + 6);
}

TEST_CASE("test files are a split of their own, with or without validation files", "[threads]") {
  for (const int val : {0, 17}) {
    TemporaryDirectory folder;
    const std::string a = awkward_rows(5, 40), v = awkward_rows(6, val), t = awkward_rows(7, 23);
    write_text(folder / "a.tsv", a);
    write_text(folder / "v.tsv", v);
    write_text(folder / "t.tsv", t);
    const OracleData expected = oracle_data(oracle_rows(a + v + t), 40);
    CriteoPrepOptions options = options_for(folder, {"a.tsv"});
    if (val > 0) options.val = {folder / "v.tsv"};
    options.test = {folder / "t.tsv"};
    criteo_prep(options);
    CHECK((read_text(folder / "train.bin") == expected.bytes(0, 40)));
    CHECK((read_text(folder / "test.bin") == expected.bytes(40 + static_cast<size_t>(val), 23)));
    CHECK(std::filesystem::exists(folder / "val.bin") == (val > 0));
    if (val > 0) CHECK((read_text(folder / "val.bin") == expected.bytes(40, 17)));
    options.test = options.train;
    check_contains(message_of<ConfigError>([&] { criteo_prep(options); }), {"a.tsv", "as both"});
  }
}

TEST_CASE("a malformed row is an error with file and line, and leaves no results", "[threads]") {
  TemporaryDirectory folder;
  std::string text = awkward_rows(7, 90);
  size_t at = 0;
  for (int line = 1; line < 58; ++line) at = text.find('\n', at) + 1;
  text.replace(at, 1, "7");  // the label of line 58
  write_text(folder / "a.tsv", awkward_rows(8, 10));
  write_text(folder / "b.tsv", text);
  for (const int64_t block_bytes : {int64_t{800}, int64_t{1} << 20}) {
    const std::string message = message_of<DataError>([&] {
      CriteoPrepOptions options = options_for(folder, {"a.tsv", "b.tsv"});
      options.run.threads = 3;
      options.run.block_bytes = block_bytes;
      options.run.restart = true;
      criteo_prep(options);
    });
    check_contains(message, {folder / "b.tsv:58: column 1 (label): expected 0 or 1, found \"7\""});
    CHECK_FALSE(has_results(folder));
  }
}

TEST_CASE("with --max-bad-rows, prep skips that many rows and counts them", "[threads]") {
  TemporaryDirectory folder;
  const std::string good = awkward_rows(9, 30);
  const std::string bad = "x" + good.substr(1), cut = good.substr(0, good.size() / 2) + "\n";
  write_text(folder / "good.tsv", good);
  write_text(folder / "bad.tsv", bad);  // line 1
  write_text(folder / "cut.tsv", cut + good);
  const CriteoPrepOptions options = options_for(folder, {"bad.tsv", "cut.tsv"});
  CriteoPrepOptions two = options, one = options;
  two.run.max_bad_rows = 2;
  one.run.max_bad_rows = 1;
  const data::Manifest manifest = criteo_prep(two);
  REQUIRE(manifest.sources.size() == 2);
  CHECK(manifest.sources[0].bad_rows == 1);
  CHECK(manifest.sources[0].rows == 29);
  CHECK(manifest.sources[1].bad_rows == 1);
  check_contains(message_of<DataError>([&] { criteo_prep(one); }),
                 {"cut.tsv:", "(more than 1 malformed rows)"});
}

TEST_CASE("missing, empty and contradictory inputs are errors", "[threads]") {
  TemporaryDirectory folder;
  write_text(folder / "a.tsv", awkward_rows(10, 3));
  write_text(folder / "empty.tsv", "");
  const auto with = [&](std::vector<std::string> train, std::vector<std::string> val, bool split) {
    return [=, &folder] {
      CriteoPrepOptions options = options_for(folder, {});
      options.train = train;
      options.val = val;
      options.split_last_half = split;
      options.run.restart = true;
      criteo_prep(options);
    };
  };
  const std::string a = folder / "a.tsv";
  check_contains(message_of<FileError>(with({folder / "none.tsv"}, {}, false)),
                 {"none.tsv: cannot open: No such file"});
  check_contains(message_of<FileError>(with({folder.path()}, {}, false)), {"directory"});
  check_contains(message_of<DataError>(with({a, folder / "empty.tsv"}, {}, false)),
                 {"empty.tsv: expected at least one row"});
  check_contains(message_of<ConfigError>(with({}, {}, false)), {"--train"});
  check_contains(message_of<ConfigError>(with({a}, {}, true)), {"at least two"});
  check_contains(message_of<ConfigError>(with({a, a}, {folder / "empty.tsv"}, true)), {"--val"});
  check_contains(message_of<ConfigError>(with({"-", a}, {"-"}, false)), {"standard input"});
  CHECK_FALSE(has_results(folder));
}

}  // namespace
}  // namespace hlite::prep
