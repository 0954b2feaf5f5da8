#include "tools/criteo_prep.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"
#include "tests/tools/gzip_file.h"

namespace hlite::tools {
namespace {

using test::check_contains;
using test::message_of;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

// Rows with everything the format allows: missing values, negative integers, upper case, short
// tokens, tokens that fall together modulo the range, CRLF.
std::string awkward_rows(uint64_t seed, int rows, bool final_newline = true) {
  std::string text;
  uint64_t counter = 0;
  const auto draw = [&](uint32_t below) { return random::word(seed, 9, counter++) % below; };
  for (int row = 0; row < rows; ++row) {
    text += std::to_string(draw(2));
    for (int k = 0; k < 13; ++k) {
      text += '\t';
      if (draw(5) > 0) text += std::to_string(static_cast<int>(draw(2000)) - 100);
    }
    for (int k = 0; k < 26; ++k) {
      text += '\t';
      const uint32_t token = draw(static_cast<uint32_t>(3 + 7 * k)) * 20000000u;
      if (draw(8) > 0) text += fmt::format(fmt::runtime(draw(2) ? "{:x}" : "{:08X}"), token);
    }
    text += row % 3 == 0 ? "\r\n" : "\n";
  }
  if (!final_newline) text.pop_back();
  return text;
}

// The recipe from its definition, with nothing clever: a string a field, a map a column.
struct Reference {
  std::array<std::map<uint64_t, uint32_t>, 26> ids;
  std::string convert(const std::string& text, uint64_t range) {
    std::string out;
    const auto put = [&](uint32_t word) {
      char bytes[4];
      std::memcpy(bytes, &word, 4);
      out.append(bytes, 4);
    };
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.back() == '\r') line.pop_back();
      std::vector<std::string> fields(1);
      for (const char c : line)
        c == '\t' ? void(fields.emplace_back()) : fields.back().push_back(c);
      REQUIRE(fields.size() == 40);
      put(fields[0] == "1");
      for (size_t k = 1; k < 14; ++k) {
        const int x = fields[k].empty() ? 0 : std::stoi(fields[k]);
        put(x < 0 ? 0u : static_cast<uint32_t>(x));
      }
      for (size_t k = 0; k < 26; ++k) {
        const std::string& token = fields[14 + k];
        const uint64_t key = (token.empty() ? 0 : std::stoull(token, nullptr, 16)) % range;
        put(ids[k].try_emplace(key, static_cast<uint32_t>(ids[k].size())).first->second);
      }
    }
    return out;
  }
};

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

TEST_CASE("criteo_prep gives the bytes of a plain implementation, for any threads and blocks") {
  TemporaryDirectory folder;
  const std::string a = awkward_rows(1, 701), b = awkward_rows(2, 333, false),
                    v = awkward_rows(3, 150);
  write_text(folder / "a.tsv", a);
  test::write_gzip(folder / "b.tsv.gz", b);
  write_text(folder / "v.tsv", v);
  Reference reference;
  std::string train = reference.convert(a, 40000000);
  train += reference.convert(b, 40000000);
  const std::string val = reference.convert(v, 40000000);

  std::string manifest_text;
  for (const int threads : {1, 2, 5}) {
    for (const int64_t block_bytes : {int64_t{700}, int64_t{9973}, int64_t{1} << 20}) {
      INFO("threads " << threads << ", blocks of " << block_bytes);
      const RawManifest manifest = criteo_prep({.train = {folder / "a.tsv", folder / "b.tsv.gz"},
                                                .val = {folder / "v.tsv"},
                                                .out = folder.path(),
                                                .threads = threads,
                                                .block_bytes = block_bytes});
      CHECK((read_text(folder / "train.bin") == train));
      CHECK((read_text(folder / "val.bin") == val));
      REQUIRE(manifest.slot_sizes.size() == 26);
      for (size_t k = 0; k < 26; ++k) {
        CHECK(manifest.slot_sizes[k] == static_cast<int64_t>(reference.ids[k].size()));
      }
      const std::string text = read_text(folder / "manifest.json");
      if (manifest_text.empty()) manifest_text = text;
      CHECK(text == manifest_text);
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
  for (size_t at = 0; at < val.size(); at += 160) positives += val[at];
  CHECK(json["files"]["val"]["label_rate"].get<double>() == static_cast<double>(positives) / 150.0);
  CHECK(json["sources"].size() == 3);
  CHECK(json["sources"][1]["bytes"] == b.size());
  // "slot_size_array" stands on one line, for shells.
  CHECK(manifest_text.find(fmt::format(
            "\"slot_size_array\": [{}]",
            fmt::join(json["slot_size_array"].get<std::vector<int>>(), ","))) != std::string::npos);
}

TEST_CASE("the key range is an option, 0 keeps tokens whole") {
  TemporaryDirectory folder;
  const std::string text = awkward_rows(4, 50);
  write_text(folder / "a.tsv", text);
  for (const uint32_t range : {0u, 7u, 20000000u}) {
    Reference reference;
    const std::string expected =
        reference.convert(text, range == 0 ? uint64_t{1} << 32 : uint64_t{range});
    criteo_prep({.train = {folder / "a.tsv"}, .out = folder.path(), .max_ind_range = range});
    CHECK((read_text(folder / "train.bin") == expected));
  }
}

TEST_CASE("with --split-last-half, prep halves the last file, the odd row in val") {
  TemporaryDirectory folder;
  const std::string a = awkward_rows(5, 40), b = awkward_rows(6, 21);
  write_text(folder / "a.tsv", a);
  write_text(folder / "b.tsv", b);
  Reference reference;
  const std::string train = reference.convert(a, 40000000), last = reference.convert(b, 40000000);
  criteo_prep({.train = {folder / "a.tsv", folder / "b.tsv"},
               .split_last_half = true,
               .out = folder.path()});
  CHECK((read_text(folder / "train.bin") == train));
  CHECK((read_text(folder / "val.bin") == last.substr(0, 11 * 160)));
  CHECK((read_text(folder / "test.bin") == last.substr(11 * 160)));
  CHECK(folder.entries() == 2 + 4);  // nothing is left of the last day's own file
}

TEST_CASE("a malformed row is an error with file and line, and leaves no results") {
  TemporaryDirectory folder;
  std::string text = awkward_rows(7, 90);
  size_t at = 0;
  for (int line = 1; line < 58; ++line) at = text.find('\n', at) + 1;
  text.replace(at, 1, "7");  // the label of line 58
  write_text(folder / "a.tsv", awkward_rows(8, 10));
  write_text(folder / "b.tsv", text);
  for (const int64_t block_bytes : {int64_t{800}, int64_t{1} << 20}) {
    const std::string message = message_of<DataError>([&] {
      criteo_prep({.train = {folder / "a.tsv", folder / "b.tsv"},
                   .out = folder.path(),
                   .threads = 3,
                   .block_bytes = block_bytes});
    });
    check_contains(message, {folder / "b.tsv:58: column 1 (label): expected 0 or 1, found \"7\""});
    CHECK_FALSE(has_results(folder));
  }
}

TEST_CASE("with --max-bad-rows, prep skips that many rows and counts them") {
  TemporaryDirectory folder;
  const std::string good = awkward_rows(9, 30);
  const std::string bad = "x" + good.substr(1), cut = good.substr(0, good.size() / 2) + "\n";
  write_text(folder / "good.tsv", good);
  write_text(folder / "bad.tsv", bad);  // line 1
  write_text(folder / "cut.tsv", cut + good);
  const CriteoPrepOptions options{.train = {folder / "bad.tsv", folder / "cut.tsv"},
                                  .out = folder.path()};
  CriteoPrepOptions two = options, one = options;
  two.max_bad_rows = 2;
  one.max_bad_rows = 1;
  const RawManifest manifest = criteo_prep(two);
  REQUIRE(manifest.sources.size() == 2);
  CHECK(manifest.sources[0].bad_rows == 1);
  CHECK(manifest.sources[0].rows == 29);
  CHECK(manifest.sources[1].bad_rows == 1);
  check_contains(message_of<DataError>([&] { criteo_prep(one); }),
                 {"cut.tsv:", "(more than 1 malformed rows)"});
}

TEST_CASE("missing, empty and contradictory inputs are errors") {
  TemporaryDirectory folder;
  write_text(folder / "a.tsv", awkward_rows(10, 3));
  write_text(folder / "empty.tsv", "");
  const auto with = [&](std::vector<std::string> train, std::vector<std::string> val, bool split) {
    return [=, &folder] {
      criteo_prep({.train = train, .val = val, .split_last_half = split, .out = folder.path()});
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
  check_contains(message_of<ConfigError>(with({a, a}, {a}, true)), {"--val"});
  check_contains(message_of<ConfigError>(with({"-", a}, {"-"}, false)), {"standard input"});
  CHECK_FALSE(has_results(folder));
}

}  // namespace
}  // namespace hlite::tools
