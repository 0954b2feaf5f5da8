#include "data_reader/manifest_fit.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::data {
namespace {

using test::check_contains;
using test::RawFixture;

// A raw file of 3 numbers and tables of 5, 1 and 70 rows, and its manifest.
struct FitFixture {
  RawFixture raw{1000};
  ManifestEntry entry{raw.dir / "manifest.json", {}, {}};
  std::vector<int64_t> rows = raw.shape.slot_rows;

  FitFixture() {
    Manifest& m = entry.manifest;
    m.tool = "criteo_prep";
    m.dense_dim = 3;
    m.hotness = {1, 1, 1};
    m.slot_sizes = rows;
    m.columns = {{.name = "user"}, {.name = "item"}, {.name = "kind"}};
    m.files = {{"train", "f.bin", 1000, 500, raw.bytes(), "", sample_digits({raw.path})}};
    entry.file = m.files[0];
  }
  [[nodiscard]] std::string fault() const {
    const auto misfit = find_misfit(entry, raw.path, raw.data, rows);
    return misfit ? misfit->fault : "";
  }
  [[nodiscard]] std::string message() const {
    const auto misfit = find_misfit(entry, raw.path, raw.data, rows);
    REQUIRE(misfit);
    check_contains(misfit->message, {raw.path, "as " + entry.path + " says"});
    return misfit->message + "; " + misfit->advice;
  }
};

TEST_CASE("a file of its manifest, read as the manifest says, fits") {
  FitFixture f;
  CHECK(f.fault().empty());
  CHECK_FALSE(find_stale(f.entry, f.raw.path));
  f.rows = {5, 2, 4294967295};  // larger tables, and a hash table of any keys
  CHECK(f.fault().empty());
  f.rows.clear();  // not known
  CHECK(f.fault().empty());
}

TEST_CASE("a config that contradicts the manifest gets an error that names the number") {
  FitFixture f;
  SECTION("numbers and slots") {
    f.raw.data.dense_dim = 2;
    CHECK(f.fault() == "dense_dim");
    check_contains(f.message(), {"3 dense features and 3 slots", "2 dense features and 3 slots"});
  }
  SECTION("weights of samples") {
    f.entry.manifest.sample_weight = true;
    CHECK(f.fault() == "sample_weight");
    check_contains(f.message(), {"expected a sample weight", "found no sample weight",
                                 "set \"sample_weight\": true"});
  }
  SECTION("several labels") {
    f.entry.manifest.label_dim = f.raw.data.label_dim + 1;
    CHECK(f.fault() == "label_dim");
    check_contains(f.message(), {"expected 2 labels", "found 1 label", "\"label_dim\": 2"});
  }
  SECTION("labels that are numbers") {
    f.raw.data.real_label = true;
    CHECK(f.fault() == "real_label");
    check_contains(f.message(), {"labels of 0 and 1", "found real labels", "\"real\": false"});
  }
  SECTION("a share of the negatives, of training rows alone") {
    f.entry.manifest.negative_share = 0.1;
    CHECK(f.fault() == "negative_share");
    check_contains(f.message(),
                   {"a share of 0.1", "found a share of 1", "\"negative_share\": 0.1"});
    f.raw.data.negative_share = 0.1;
    CHECK(f.fault().empty());
    f.raw.data.negative_share = 1;
    f.entry.file.role = "val";
    CHECK(f.fault().empty());
  }
  SECTION("keys of a slot") {
    f.entry.manifest.hotness = {2, 1, 1};
    CHECK(f.fault() == "layout_of_manifest");
    check_contains(f.message(), {"[2,1,1] keys of the slots", "[1,1,1]", "nnz_per_slot"});
  }
  SECTION("a varying number of keys") {
    f.entry.manifest.fixed_length = false;
    CHECK(f.fault() == "fixed_length");
    check_contains(f.message(), {"expected a varying number of keys in a slot",
                                 "found a fixed number of keys in each slot",
                                 "set \"is_fixed_length\": false in sparse of layers[0]"});
    f.raw.data.sparse[0].is_fixed_length = false;
    CHECK(f.fault().empty());
    f.entry.manifest.fixed_length = true;
    CHECK(f.fault() == "fixed_length");
  }
  SECTION("kinds of numbers") {
    f.entry.manifest.float_dense = true;
    CHECK(f.fault() == "float_dense");
    check_contains(f.message(),
                   {"int32 labels and float32 dense features", "int32 dense features"});
    f.entry.manifest.float_label = true;
    CHECK(f.fault() == "float_label");
    check_contains(f.message(), {"set \"float_label_dense\": true in layers[0]"});
  }
  SECTION("a table that is too small") {
    f.rows = {5, 1, 69};
    CHECK(f.fault() == "tables_of_manifest");
    check_contains(f.message(), {"70 rows for the table of slot 2 (kind)", "found 69 in the config",
                                 "\"slot_size_array\": \"" + f.entry.path + "\""});
    f.raw.data.key_policy.kind = config::KeyPolicy::kClamp;  // on purpose
    CHECK(f.fault().empty());
  }
  SECTION("tables in another order") {
    f.rows = {1, 5, 70};
    check_contains(f.message(), {"slot 0 (user)", "the same sizes in another order"});
  }
  SECTION("the format") {
    f.raw.data.format = &config::data_format("Norm");
    CHECK(f.fault() == "wrong_format");
    check_contains(f.message(), {"the format raw", "found Norm", "\"format\": \"RawAsync\""});
    f.entry.manifest.format = "norm";
    CHECK(f.fault().empty());
    f.raw.data.global_keys = true;
    CHECK(f.fault() == "global_keys");
    f.raw.data.global_keys = false;
    f.raw.data.sparse[0].hotness = {2, 2, 2};  // a Norm sample may have fewer
    CHECK(f.fault().empty());
    f.raw.data.format = &config::data_format("Raw");
    check_contains(f.message(), {"the format norm", "\"format\": \"Norm\""});
    f.entry.manifest.format = "numpy";
    check_contains(f.message(), {"the format numpy", "--format raw"});
  }
}

TEST_CASE("a file that is not the one of its manifest is recognized by its size or a sample") {
  FitFixture f;
  const std::string bytes = test::read_text(f.raw.path);
  const auto stale = [&] {
    const auto misfit = find_stale(f.entry, f.raw.path);
    return misfit ? misfit->fault : "";
  };
  test::write_text(f.raw.path, bytes.substr(0, 2800));
  CHECK(stale() == "size_of_manifest");
  check_contains(find_stale(f.entry, f.raw.path)->message, {"28000 bytes", "found 2800"});
  std::string other = bytes;
  other[14000] = static_cast<char>(other[14000] + 1);
  test::write_text(f.raw.path, other);
  CHECK(stale() == "stale_file");
  f.entry.file.sample_xxh3.clear();  // a manifest of an earlier version
  CHECK(stale().empty());
}

TEST_CASE("a file that no manifest names fits any config") {
  FitFixture f;
  CHECK_NOTHROW(require_fit(f.raw.path, f.raw.data, f.rows));
  test::write_text(f.raw.dir / "manifest.json", f.entry.manifest.to_json());
  CHECK_NOTHROW(require_fit(f.raw.path, f.raw.data, f.rows));
  f.raw.data.dense_dim = 2;
  check_contains(test::message_of<DataError>([&] { require_fit(f.raw.path, f.raw.data, f.rows); }),
                 {"f.bin: expected 3 dense features", "let the config say what the manifest says"});
  CHECK(manifest_without(f.raw.path).empty());
  CHECK(manifest_without(f.raw.dir / "left.bin") == f.raw.dir / "manifest.json");
  CHECK(manifest_without("/none/left.bin").empty());
}

TEST_CASE("a history of the data is one in the config, and the other way round") {
  FitFixture f;
  f.entry.manifest.histories = {{"clicks", 1, 2}};
  CHECK(f.fault() == "histories");
  check_contains(f.message(), {"expected histories in the slots 1 to 2",
                               "found no history in the config", "max_len"});
  f.entry.manifest.histories.clear();
  f.raw.data.sparse[0].max_len = 1;
  CHECK(f.fault() == "histories");
  f.entry.manifest.histories = {{"clicks", 0, 3}};
  CHECK(f.fault() != "histories");
}

}  // namespace
}  // namespace hlite::data
