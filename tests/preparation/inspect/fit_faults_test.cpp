// What check_fit says of files and configs that do not fit.
#include <zlib.h>

#include <algorithm>
#include <functional>

#include "tests/preparation/inspect/fit_folder.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

using test::changed;
using test::fit;
using test::FitFolder;
using test::SmallData;
using test::write_text;

std::string gzipped(const std::string& text, const std::string& path) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
  gzclose(file);
  return test::read_text(path);
}

struct BrokenPair {
  const char* what;
  const char* format;
  const char* fault;
  std::vector<std::string> says;  // parts of message and advice
  std::function<void(FitFolder&)> breakage;
};

const std::vector<BrokenPair>& broken_pairs() {
  static const std::vector<BrokenPair> pairs = {
      {"file is not there",
       "RawAsync",
       "missing_file",
       {"nowhere.bin", "source"},
       [](FitFolder& f) { f.set = {"layers.data.source=nowhere.bin"}; }},
      {"empty file",
       "RawAsync",
       "empty_file",
       {"train.bin"},
       [](FitFolder& f) { write_text(f.train(), ""); }},
      {"gzip given as raw",
       "RawAsync",
       "compressed",
       {"gzip", "criteo_prep"},
       [](FitFolder& f) { gzipped(SmallData().criteo_text(), f.train()); }},
      {"Criteo text given as raw",
       "RawAsync",
       "wrong_format",
       {"Criteo TSV", "criteo_prep"},
       [](FitFolder& f) { write_text(f.train(), SmallData().criteo_text()); }},
      {"CSV given as raw",
       "RawAsync",
       "wrong_format",
       {"text file", "csv_prep"},
       [](FitFolder& f) {
         std::string text = "label,a,b\n";
         for (int i = 0; i < 50; ++i) text += "1,2.5," + std::to_string(i) + "\n";
         write_text(f.train(), text);
       }},
      {"a Norm file given as raw",
       "RawAsync",
       "wrong_format",
       {"Norm file", "\"format\": \"Norm\""},
       [](FitFolder& f) { write_text(f.train(), SmallData().norm()); }},
      {"a file list given as raw",
       "RawAsync",
       "wrong_format",
       {"Norm file list"},
       [](FitFolder& f) { write_text(f.train(), "2\npart_0.norm\npart_1.norm\n"); }},
      {"the manifest given as raw",
       "RawAsync",
       "wrong_format",
       {"manifest"},
       [](FitFolder& f) {
         f.write_manifest({}, "train");
         f.set = {"layers.data.source=manifest.json"};
       }},
      {"a NumPy array given as raw",
       "RawAsync",
       "wrong_format",
       {"NumPy"},
       [](FitFolder& f) {
         write_text(f.train(), "\x93NUMPY\x01 and so on, to some length........");
       }},
      {"fewer slots than the config says",
       "RawAsync",
       "label_values",
       {"label 0", "the first is"},
       [](FitFolder& f) {
         f.write({.sizes = {50, 7}});
       }},
      {"fewer slots, and no whole number of records",
       "RawAsync",
       "record_size",
       {"32 (1 label + 3 dense + 4 keys", "449 records and 8 bytes", "other columns"},
       [](FitFolder& f) {
         f.write({.samples = 599, .sizes = {50, 7}});
       }},
      {"more dense values than the config says",
       "RawAsync",
       "label_values",
       {"label 0", "the first is"},
       [](FitFolder& f) { f.write({.dense = 8}); }},
      {"several keys a slot",
       "RawAsync",
       "label_values",
       {"label 0", "the first is"},
       [](FitFolder& f) { f.write({.sizes = std::vector<int64_t>(22, 40)}); }},
      {"cut short inside a record",
       "RawAsync",
       "record_size",
       {"599 records", "13 bytes", "cut short"},
       [](FitFolder& f) { write_text(f.train(), SmallData().raw().substr(0, 599 * 32 + 13)); }},
      {"cut short between records",
       "RawAsync",
       "num_samples",
       {"400", "600"},
       [](FitFolder& f) { write_text(f.train(), SmallData().raw().substr(0, 400 * 32)); }},
      {"shorter than its manifest says",
       "RawAsync",
       "size_of_manifest",
       {"19200", "12800"},
       [](FitFolder& f) {
         f.write_manifest({}, "train");
         write_text(f.train(), SmallData().raw().substr(0, 400 * 32));
       }},
      {"labels 1 and 2",
       "RawAsync",
       "label_values",
       {"2"},
       [](FitFolder& f) { f.write_words(changed({}, [](int64_t, uint32_t* w) { ++w[0]; })); }},
      {"float labels and dense values read as integers",
       "RawAsync",
       "float_label",
       {"float32", "1065353216", "float_label_dense"},
       [](FitFolder& f) { f.write({.float_label = true, .float_dense = true}); }},
      {"integer labels and dense values read as floats",
       "RawAsync",
       "integer_label",
       {"int32"},
       [](FitFolder& f) { f.set = {"layers.data.float_label_dense=true"}; }},
      {"float dense values with integer labels",
       "RawAsync",
       "float_dense",
       {"float32", "is_dense_float"},
       [](FitFolder& f) { f.write({.float_dense = true}); }},
      {"negative integers",
       "RawAsync",
       "negative_dense",
       {"dense 1", "-1", "record 4"},
       [](FitFolder& f) {
         f.write_words(changed({}, [](int64_t r, uint32_t* w) {
           if (r % 5 == 4) w[2] = UINT32_MAX;
         }));
       }},
      {"floats that are NaN",
       "RawAsync",
       "not_finite",
       {"dense 2", "record 3"},
       [](FitFolder& f) {
         f.set = {"layers.data.float_label_dense=true"};
         f.write_words(
             changed({.float_label = true, .float_dense = true}, [](int64_t r, uint32_t* w) {
               if (r == 3) w[3] = 0x7fc00000;
             }));
       }},
      {"a table too small",
       "RawAsync",
       "key_range",
       {"slot 2", "299", "200 rows", "at least 300 rows"},
       [](FitFolder& f) {
         f.set = {"layers.emb.sparse_embedding_hparam.slot_size_array=[50,7,200,1000]"};
       }},
      {"keys that count from 1",
       "RawAsync",
       "key_range",
       {"key of slot", "at least"},
       [](FitFolder& f) {
         f.write_words(changed({}, [](int64_t, uint32_t* w) {
           for (int s = 4; s < 8; ++s) ++w[s];
         }));
       }},
      {"keys that count on over the tables",
       "RawAsync",
       "key_range",
       {"slot", "they go from"},
       [](FitFolder& f) { f.write({.global_keys = true}); }},
      {"tables smaller than the manifest's",
       "RawAsync",
       "tables_of_manifest",
       {"manifest.json", "slot 1", "7", "6"},
       [](FitFolder& f) {
         f.write_manifest({}, "train");
         f.set = {"layers.emb.sparse_embedding_hparam.slot_size_array=[50,6,300,1000]"};
       }},
      {"slots that share a table but no vocabulary",
       "RawAsync",
       "mixed_vocabularies",
       {"manifest.json", "slots 0 (C0) and 2 (C2)", "table 0 of \"emb\"", "csv_prep"},
       [](FitFolder& f) {
         f.write_manifest({}, "train", {"a", "b", "c", "d"});
         f.set = {"layers.emb.sparse_embedding_hparam.slot_tables=[0,1,0,2]",
                  "layers.emb.sparse_embedding_hparam.slot_size_array=[300,7,300,1000]"};
       }},
      {"another layout than the manifest's",
       "RawAsync",
       "dense_dim",
       {"manifest.json", "2", "5"},
       [](FitFolder& f) {
         const SmallData other{.dense = 2, .sizes = {50, 7, 300, 1000, 20}};
         f.write(other);
         f.write_manifest(other, "train");
       }},
      {"validation data as source, by the manifest",
       "RawAsync",
       "wrong_role",
       {"val", "exchange"},
       [](FitFolder& f) { f.write_manifest({}, "val"); }},
      {"training and evaluation exchanged, by their sizes",
       "RawAsync",
       "swapped_files",
       {"exchange"},
       [](FitFolder& f) {
         f.set = {"layers.data.source=eval.bin", "layers.data.eval_source=train.bin"};
       }},
      {"one file for both",
       "RawAsync",
       "same_file",
       {"train.bin"},
       [](FitFolder& f) {
         f.set = {"layers.data.eval_source=train.bin"};
         f.role = config::Split::kEval;
       }},
      {"raw data given as Norm",
       "Norm",
       "wrong_format",
       {"list of Norm files", "RawAsync"},
       [](FitFolder& f) { write_text(f.directory / "train.txt", SmallData().raw()); }},
      {"a Norm file in place of its list",
       "Norm",
       "norm_file",
       {"file list"},
       [](FitFolder& f) { f.set = {"layers.data.source=train_0.norm"}; }},
      {"a list that names a file that is not there",
       "Norm",
       "records",
       {"gone.norm"},
       [](FitFolder& f) { write_text(f.directory / "train.txt", "1\ngone.norm\n"); }},
      {"a list that says more files than it has",
       "Norm",
       "records",
       {"train.txt"},
       [](FitFolder& f) { write_text(f.directory / "train.txt", "3\ntrain_0.norm\n"); }},
      {"checksums that the config does not expect",
       "Norm",
       "records",
       {"layers[0].check is \"None\"", "found some"},
       [](FitFolder& f) { f.set = {"layers.data.check=None"}; }},
      {"no checksums where the config expects them",
       "Norm",
       "records",
       {"layers[0].check is \"Sum\"", "found none"},
       [](FitFolder& f) { f.write_norm({.sum = false}); }},
      {"a header of other dimensions",
       "Norm",
       "records",
       {"dense_dim 3", "found 5"},
       [](FitFolder& f) { f.write_norm({.dense = 5}); }},
      {"a Norm file cut short",
       "Norm",
       "records",
       {"train_0.norm"},
       [](FitFolder& f) {
         const std::string bytes = SmallData().norm();
         write_text(f.directory / "train_0.norm", bytes.substr(0, bytes.size() / 3));
       }},
      {"a damaged record",
       "Norm",
       "records",
       {"record 2", "checksum"},
       [](FitFolder& f) {
         std::string bytes = SmallData().norm();
         bytes[69 + 2 * 53 + 20] = static_cast<char>(bytes[69 + 2 * 53 + 20] + 1);
         write_text(f.directory / "train_0.norm", bytes);
       }},
      {"global keys in a Norm file",
       "Norm",
       "global_keys",
       {"\"keys\": \"global\""},
       [](FitFolder& f) { f.write_norm({.global_keys = true}); }},
      {"a table too small for a Norm file",
       "Norm",
       "key_range",
       {"slot 3", "999"},
       [](FitFolder& f) {
         f.set = {"layers.emb.sparse_embedding_hparam.slot_size_array=[50,7,300,900]"};
       }},
      {"32-bit keys where the config says 64",
       "Norm",
       "norm_keys",
       {"32 bits", "I32"},
       [](FitFolder& f) { f.set = {"solver.input_key_type=I64"}; }},
      {"fewer samples than the config says, Norm",
       "Norm",
       "num_samples",
       {"600", "700"},
       [](FitFolder& f) { f.set = {"layers.data.num_samples=700"}; }},
  };
  return pairs;
}

TEST_CASE("broken file and config pairs: the right fault is named, with what would fit") {
  for (const BrokenPair& pair : broken_pairs()) {
    INFO(pair.what);
    FitFolder folder(pair.format);
    pair.breakage(folder);
    const FitReport report = fit(folder);
    REQUIRE_FALSE(report.fits());
    const Finding& found = report.faults.front();
    INFO(found.fault << ": " << found.message << " | " << found.advice);
    CHECK(found.fault == pair.fault);
    for (const std::string& part : pair.says) {
      INFO("expected in it: " << part);
      CHECK((found.message + " | " + found.advice).find(part) != std::string::npos);
    }
  }
  CHECK(broken_pairs().size() >= 20);
}

}  // namespace
}  // namespace hlite::prep
