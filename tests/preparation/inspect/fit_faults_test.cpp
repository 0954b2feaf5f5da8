// Checks which fault check_fit() finds in files and configs that do not fit.
#include <zlib.h>

#include <algorithm>
#include <functional>

#include "tests/preparation/inspect/fit_folder.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::changed;
using test::fit;
using test::FitFolder;
using test::SmallData;
using test::write_text;

void write_gzipped(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
  gzclose(file);
}

using Breakage = std::function<void(FitFolder&)>;
struct BrokenPair {
  const char* what;
  const char* fault;
  std::vector<std::string> says;  // parts of message and advice
  Breakage breakage;
};

// Changes of the config.
Breakage set(std::vector<std::string> changes) {
  return [=](FitFolder& f) { f.set = changes; };
}
Breakage set_sizes(const std::string& sizes) {
  return set({"layers.emb.sparse_embedding_hparam.slot_size_array=" + sizes});
}
// The training file holds these bytes, or other data.
Breakage write(const std::string& bytes) {
  return [=](FitFolder& f) { write_text(f.train(), bytes); };
}
Breakage write(const SmallData& data) {
  return [=](FitFolder& f) { f.write(data); };
}
Breakage write_changed(const SmallData& data,
                       const std::function<void(int64_t, uint32_t*)>& change) {
  return [=](FitFolder& f) { f.write_words(changed(data, change)); };
}
Breakage write_list(const std::string& text) {
  return [=](FitFolder& f) { write_text(f.directory / "train.txt", text); };
}
Breakage write_norm(const SmallData& data) {
  return [=](FitFolder& f) { f.write_norm(data); };
}
Breakage write_norm_bytes(const std::string& bytes) {
  return [=](FitFolder& f) { write_text(f.directory / "train_0.norm", bytes); };
}
// A manifest of the data in this role, then the breakage.
Breakage with_manifest(
    const char* role, const Breakage& then = [](FitFolder&) {}) {
  return [=](FitFolder& f) {
    f.write_manifest({}, role);
    then(f);
  };
}

std::string csv_lines() {
  std::string text = "label,a,b\n";
  for (int i = 0; i < 50; ++i) text += "1,2.5," + std::to_string(i) + "\n";
  return text;
}
std::string damaged_norm() {
  std::string bytes = SmallData().norm();
  bytes[69 + 2 * 53 + 20] = static_cast<char>(bytes[69 + 2 * 53 + 20] + 1);
  return bytes;
}
void write_other_layout(FitFolder& f) {
  const SmallData other{.dense = 2, .sizes = {50, 7, 300, 1000, 20}};
  f.write(other);
  f.write_manifest(other, "train");
}
void share_a_table(FitFolder& f) {
  f.write_manifest({}, "train", {"a", "b", "c", "d"});
  f.set = {"layers.emb.sparse_embedding_hparam.slot_tables=[0,1,0,2]",
           "layers.emb.sparse_embedding_hparam.slot_size_array=[300,7,300,1000]"};
}
void evaluate_on_training_data(FitFolder& f) {
  f.set = {"layers.data.eval_source=train.bin"};
  f.role = config::Split::kEval;
}
void write_nan(FitFolder& f) {
  f.set = {"layers.data.float_label_dense=true"};
  f.write_words(changed({.float_label = true, .float_dense = true}, [](int64_t r, uint32_t* w) {
    if (r == 3) w[3] = 0x7fc00000;
  }));
}
void count_keys_from_one(int64_t, uint32_t* w) {
  for (int s = 4; s < 8; ++s) ++w[s];
}
void make_dense_negative(int64_t r, uint32_t* w) {
  if (r % 5 == 4) w[2] = UINT32_MAX;
}

// clang-format off
std::vector<BrokenPair> raw_pairs() {
  const std::string raw = SmallData().raw();
  return {
      {"file is not there", "missing_file", {"nowhere.bin", "source"}, set({"layers.data.source=nowhere.bin"})},
      {"empty file", "empty_file", {"train.bin"}, write("")},
      {"gzip given as raw", "compressed", {"gzip", "criteo_prep"}, [](FitFolder& f) { write_gzipped(f.train(), SmallData().criteo_text()); }},
      {"Criteo text given as raw", "wrong_format", {"Criteo TSV", "criteo_prep"}, write(SmallData().criteo_text())},
      {"CSV given as raw", "wrong_format", {"text file", "csv_prep"}, write(csv_lines())},
      {"a Norm file given as raw", "wrong_format", {"Norm file", "\"format\": \"Norm\""}, write(SmallData().norm())},
      {"a file list given as raw", "wrong_format", {"Norm file list"}, write("2\npart_0.norm\npart_1.norm\n")},
      {"the manifest given as raw", "wrong_format", {"manifest"}, with_manifest("train", set({"layers.data.source=manifest.json"}))},
      {"a NumPy array given as raw", "wrong_format", {"NumPy"}, write("\x93NUMPY\x01 and so on, to some length........")},
      {"fewer slots than the config says", "label_values", {"label 0", "the first is"}, write(SmallData{.sizes = {50, 7}})},
      {"fewer slots, and no whole number of records", "record_size", {"32 (1 label + 3 dense + 4 keys", "449 records and 8 bytes", "other columns"}, write(SmallData{.samples = 599, .sizes = {50, 7}})},
      {"more dense values than the config says", "label_values", {"label 0", "the first is"}, write(SmallData{.dense = 8})},
      {"several keys a slot", "label_values", {"label 0", "the first is"}, write(SmallData{.sizes = std::vector<int64_t>(22, 40)})},
      {"cut short inside a record", "record_size", {"599 records", "13 bytes", "cut short"}, write(raw.substr(0, 599 * 32 + 13))},
      {"cut short between records", "num_samples", {"400", "600"}, write(raw.substr(0, 400 * 32))},
      {"shorter than its manifest says", "size_of_manifest", {"19200", "12800"}, with_manifest("train", write(raw.substr(0, 400 * 32)))},
      {"labels 1 and 2", "label_values", {"2"}, write_changed({}, [](int64_t, uint32_t* w) { ++w[0]; })},
      {"float labels and dense values read as integers", "float_label", {"float32", "1065353216", "float_label_dense"}, write(SmallData{.float_label = true, .float_dense = true})},
      {"integer labels and dense values read as floats", "integer_label", {"int32"}, set({"layers.data.float_label_dense=true"})},
      {"float dense values with integer labels", "float_dense", {"float32", "is_dense_float"}, write(SmallData{.float_dense = true})},
      {"negative integers", "negative_dense", {"dense 1", "-1", "record 4"}, write_changed({}, make_dense_negative)},
      {"floats that are NaN", "not_finite", {"dense 2", "record 3"}, write_nan},
      {"a table too small", "key_range", {"slot 2", "299", "200 rows", "at least 300 rows"}, set_sizes("[50,7,200,1000]")},
      {"keys that count from 1", "key_range", {"key of slot", "at least"}, write_changed({}, count_keys_from_one)},
      {"keys that count on over the tables", "key_range", {"slot", "they go from"}, write(SmallData{.global_keys = true})},
      {"tables smaller than the manifest's", "tables_of_manifest", {"manifest.json", "slot 1", "7", "6"}, with_manifest("train", set_sizes("[50,6,300,1000]"))},
      {"slots that share a table but no vocabulary", "mixed_vocabularies", {"manifest.json", "slots 0 (C0) and 2 (C2)", "table 0 of \"emb\"", "csv_prep"}, share_a_table},
      {"another layout than the manifest's", "dense_dim", {"manifest.json", "2", "5"}, write_other_layout},
      {"validation data as source, by the manifest", "wrong_role", {"val", "exchange"}, with_manifest("val")},
      {"training and evaluation exchanged, by their sizes", "swapped_files", {"exchange"}, set({"layers.data.source=eval.bin", "layers.data.eval_source=train.bin"})},
      {"one file for both", "same_file", {"train.bin"}, evaluate_on_training_data},
  };
}
std::vector<BrokenPair> norm_pairs() {
  const std::string norm = SmallData().norm();
  return {
      {"raw data given as Norm", "wrong_format", {"list of Norm files", "RawAsync"}, write_list(SmallData().raw())},
      {"a Norm file in place of its list", "norm_file", {"file list"}, set({"layers.data.source=train_0.norm"})},
      {"a list that names a file that is not there", "records", {"gone.norm"}, write_list("1\ngone.norm\n")},
      {"a list that says more files than it has", "records", {"train.txt"}, write_list("3\ntrain_0.norm\n")},
      {"checksums that the config does not expect", "records", {"layers[0].check is \"None\"", "found some"}, set({"layers.data.check=None"})},
      {"no checksums where the config expects them", "records", {"layers[0].check is \"Sum\"", "found none"}, write_norm({.sum = false})},
      {"a header of other dimensions", "records", {"dense_dim 3", "found 5"}, write_norm({.dense = 5})},
      {"a Norm file cut short", "records", {"train_0.norm"}, write_norm_bytes(norm.substr(0, norm.size() / 3))},
      {"a damaged record", "records", {"record 2", "checksum"}, write_norm_bytes(damaged_norm())},
      {"global keys in a Norm file", "global_keys", {"\"keys\": \"global\""}, write_norm({.global_keys = true})},
      {"a table too small for a Norm file", "key_range", {"slot 3", "999"}, set_sizes("[50,7,300,900]")},
      {"32-bit keys where the config says 64", "norm_keys", {"32 bits", "I32"}, set({"solver.input_key_type=I64"})},
      {"fewer samples than the config says, Norm", "num_samples", {"600", "700"}, set({"layers.data.num_samples=700"})},
  };
}
// clang-format on

TEST_CASE("broken file and config pairs: the right fault is named, with what would fit") {
  for (const auto& [format, pairs] :
       {std::pair("RawAsync", raw_pairs()), std::pair("Norm", norm_pairs())})
    for (const BrokenPair& pair : pairs) {
      INFO(pair.what);
      FitFolder folder(format);
      pair.breakage(folder);
      const FitReport report = fit(folder);
      REQUIRE_FALSE(report.fits());
      const Finding& found = report.faults.front();
      CHECK(found.fault == std::string(pair.fault));
      for (const std::string& part : pair.says)
        test::check_contains(found.message + " | " + found.advice, {part});
    }
}

}  // namespace
}  // namespace hlite::prep
