#include "data_reader/manifest.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::data {
namespace {

using test::check_contains;
using test::message_of;

Manifest example() {
  Manifest m;
  m.tool = "criteo_prep";
  m.dense_dim = 13;
  m.hotness = {1, 3};
  m.slot_sizes = {100, 4294967295};
  m.files = {{"train", "train.bin", 10, 4, 720, "0123456789abcdef"},
             {"val", "val.bin", 0, 0, 0, "0"}};
  m.sources = {{"a \"quoted\" name", "train", 10, 2, 999}};
  m.columns = {{"C1", 100, 60, 3, 2, {0.25, 0.5, 1, 1}}, {"C2", 7, 7, 0, 0, {1, 1, 1, 1}}};
  m.key_counts_name = "key_counts.bin";
  m.key_counts_xxh3 = "00ff";
  m.files[0].sample_xxh3 = "00000000000000aa";
  m.columns[0].vocabulary = "0123456789abcdef";
  m.columns[1].vocabulary = "hash modulo 7";
  m.columns[1].splits = {{"val", 3, 20}, {"test", 0, 1}};
  m.dense = {{"age", "standardize 38.5 13.25"}};
  m.rules = {{"missing", "\"?\""}};
  m.options_json = R"({"max_ind_range":40000000,"nested":{"a":[1,2]}})";
  m.features_json = R"(["x",{"y":1.5}])";
  return m;
}

TEST_CASE("a manifest comes back as it was written") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "manifest.json";
  const std::string text = example().to_json();
  test::write_text(path, text);
  const Manifest m = Manifest::read(path);
  CHECK(m.to_json() == text);
  CHECK(m.slot_sizes == example().slot_sizes);
  CHECK(m.hotness == example().hotness);
  CHECK(m.files[0].positives == 4);
  CHECK(m.sources[0].name == "a \"quoted\" name");
  CHECK(m.columns[0].top_share[1] == 0.5);
  CHECK(m.columns[0].out_of_vocabulary == 2);
  CHECK(m.columns[1].splits[0].role == "val");
  CHECK(m.columns[1].splits[0].missing == 3);
  CHECK(m.columns[1].splits[1].unknown == 1);
  CHECK(m.files[0].sample_xxh3 == "00000000000000aa");
  CHECK(m.identity() == DataIdentity{.slots = {{"C1", "0123456789abcdef"}, {"C2", "hash modulo 7"}},
                                     .dense = {{"age", "standardize 38.5 13.25"}},
                                     .rules = {{"missing", "\"?\""}}});
  CHECK(m.record_bytes() == 4 * (1 + 13 + 4));
  check_contains(text, {"\"slot_size_array\": [100,4294967295]", "\"bytes\": 72"});
  check_contains(m.summary(), {"train.bin: 10 rows, label rate 0.40000", "2 tables"});
}

TEST_CASE("a manifest says if samples may have fewer keys than a slot can hold") {
  const test::TemporaryDirectory folder;
  Manifest m = example();
  CHECK(m.to_json().find("fixed_length") == std::string::npos);
  m.fixed_length = false;
  test::write_text(folder / "manifest.json", m.to_json());
  CHECK_FALSE(Manifest::read(folder / "manifest.json").fixed_length);
}

TEST_CASE("a manifest says mean and deviation of the labels where it is no rate") {
  const test::TemporaryDirectory folder;
  Manifest m = example();
  CHECK(m.to_json().find("label_mean") == std::string::npos);
  m.files[0].labels = {.mean = 3.5, .deviation = 0.1};
  const std::string path = folder / "manifest.json";
  test::write_text(path, m.to_json());
  const Manifest read = Manifest::read(path);
  REQUIRE(read.files[0].labels);
  CHECK((read.files[0].labels->mean == 3.5 && read.files[0].labels->deviation == 0.1));
  CHECK(!read.files[1].labels);
  m.files[0].labels->deviation = -1;
  test::write_text(path, m.to_json());
  check_contains(message_of<ConfigError>([&] { Manifest::read(path); }),
                 {"files.train.label_deviation: expected a number >= 0, found -1"});
}

TEST_CASE("a manifest says which slots share a table, of all of them or of a layer's") {
  const test::TemporaryDirectory folder;
  Manifest m = example();
  m.hotness = {1, 1, 1, 1, 1};
  m.slot_sizes = {9, 5, 9, 5, 7};
  m.slot_tables = {0, 1, 0, 1, 2};
  CHECK(m.tables_of(std::vector<int64_t>{0, 1, 2, 3, 4}) == m.slot_tables);
  CHECK(m.tables_of(std::vector<int64_t>{1, 2, 3}) == std::vector<int64_t>{0, 1, 0});
  CHECK(m.tables_of(std::vector<int64_t>{1, 2}).empty());     // no two of them share
  CHECK(m.tables_of(std::vector<int64_t>{3, 4, 5}).empty());  // not there
  check_contains(m.summary(), {"3 tables, 21 rows in all: 9,5,9,5,7", "[0,1,0,1,2]"});
  const std::string path = folder / "manifest.json";
  test::write_text(path, m.to_json());
  check_contains(m.to_json(), {"\n \"slot_tables\": [0,1,0,1,2]"});
  CHECK(Manifest::read(path).slot_tables == m.slot_tables);
  CHECK(example().to_json().find("slot_tables") == std::string::npos);
  for (const std::vector<int64_t>& wrong : std::vector<std::vector<int64_t>>{
           {0, 1, 0, 1}, {1, 0, 1, 0, 2}, {0, 1, 0, 1, 3}, {0, 0, 1, 2, 3}}) {
    m.slot_tables = wrong;
    test::write_text(path, m.to_json());
    check_contains(message_of<ConfigError>([&] { Manifest::read(path); }),
                   {"manifest.json:", "slot_tables", "counted from 0 in the order"});
  }
}

TEST_CASE("a manifest of an earlier build is read: one key a slot, no columns") {
  const test::TemporaryDirectory folder;
  test::write_text(folder / "m.json", R"({"format": "hugectr_lite raw", "version": 1,
    "tool": "csv_prep 0.1.0", "float_label_dense": true, "dense_dim": 2, "slot_num": 3,
    "slot_size_array": [4,5,6], "files": {"train": {"name": "train.bin", "rows": 7}},
    "later": {"unknown": true}})");
  const Manifest m = Manifest::read(folder / "m.json");
  CHECK(m.tool == "csv_prep");
  CHECK(m.float_label);
  CHECK(m.float_dense);
  CHECK(m.hotness == std::vector<int64_t>{1, 1, 1});
  CHECK(m.columns.empty());
  CHECK_FALSE(m.identity().known());
  CHECK(m.key_counts_name.empty());
}

TEST_CASE("an identity without the vocabulary of a column is not known") {
  Manifest m = example();
  m.columns[1].vocabulary.clear();
  CHECK_FALSE(m.identity().known());
}

TEST_CASE("a sample of bytes covers the beginning, the end and every 64th part") {
  const test::TemporaryDirectory folder;
  std::string bytes;
  for (uint32_t i = 0; i < 1000000; ++i) bytes += static_cast<char>(i * 2654435761u >> 24);
  const auto sample_of = [&](const std::string& text) {
    test::write_text(folder / "data", text);
    return sample_digits({folder / "data"});
  };
  const std::string sample = sample_of(bytes);
  CHECK(sample.size() == 16);
  CHECK(sample_of(bytes) == sample);
  const auto changed = [&](size_t first, size_t count) {
    std::string other = bytes;
    for (size_t i = first; i < first + count; ++i) other[i] = static_cast<char>(~other[i]);
    return sample_of(other) != sample;
  };
  CHECK(changed(0, 1));
  CHECK(changed(bytes.size() - 1, 1));
  for (size_t part = 0; part < 63; ++part)
    CHECK(changed(part * bytes.size() / 64, bytes.size() / 63));
  // Files one after the other are one sequence of bytes; short ones are taken as a whole.
  test::write_text(folder / "a", bytes.substr(0, 3333));
  test::write_text(folder / "empty", "");
  test::write_text(folder / "b", bytes.substr(3333));
  CHECK(sample_digits({folder / "a", folder / "empty", folder / "b"}) == sample);
  CHECK(sample_of("short") != sample_of("shorT"));
  CHECK(sample_of("") != sample_of("x"));
}

TEST_CASE("damaged manifests are errors with place and reason") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "m.json";
  const std::string good = example().to_json();
  const auto message_with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    test::write_text(path, text.replace(at, from.size(), to));
    return message_of<ConfigError>([&] { Manifest::read(path); });
  };
  check_contains(message_with("hugectr_lite raw", "other"), {"m.json:2", "format"});
  check_contains(message_with("\"version\": 1", "\"version\": 2"), {"version 1", "2"});
  check_contains(message_with("[1,3]", "[1]"), {"hotness", "2 numbers"});
  check_contains(message_with("[100,", "[\"x\","), {"slot_size_array"});
  check_contains(message_with("\"rows\": 10", "\"rows\": -1"), {"files.train.rows"});
  check_contains(message_with("0.25,0.5,", ""), {"top_share"});
  check_contains(message_with("{", ""), {"m.json:"});
  check_contains(message_of<ConfigError>([&] { Manifest::read(folder / "none.json"); }),
                 {"none.json"});
}

TEST_CASE("a file finds the manifest in its folder that names it") {
  const test::TemporaryDirectory folder;
  Manifest synth = example();
  synth.files[0].name = "s.1.train.bin";
  synth.key_counts_name = "s.1.key_counts.bin";
  const auto found_for = [&](const std::string& name) {
    const auto entry = find_manifest_of(folder / name);
    return entry ? entry->path + " " + entry->file.role : "none";
  };
  CHECK(found_for("train.bin") == "none");
  test::write_text(folder / "manifest.json", example().to_json());
  test::write_text(folder / "s.1.manifest.json", synth.to_json());
  CHECK(found_for("train.bin") == folder / "manifest.json train");
  CHECK(found_for("val.bin") == folder / "manifest.json val");
  CHECK(found_for("s.1.train.bin") == folder / "s.1.manifest.json train");
  CHECK(found_for("s.2.train.bin") == "none");
  CHECK(is_key_counts(folder / "key_counts.bin"));
  CHECK(is_key_counts(folder / "s.1.key_counts.bin"));
  CHECK_FALSE(is_key_counts(folder / "train.bin"));

  test::write_text(folder / "manifest.json", "{\"name\": \"a web page\"}");
  check_contains(message_of<ConfigError>([&] { find_manifest_of(folder / "s.1.train.bin"); }),
                 {folder / "manifest.json"});
  const auto further = find_manifest_of(folder / "s.1.train.bin", DamagedManifest::kPassOver);
  REQUIRE(further);
  CHECK(further->manifest.key_counts_name == "s.1.key_counts.bin");
  CHECK(is_key_counts(folder / "s.1.key_counts.bin"));
}

}  // namespace
}  // namespace hlite::data
