#include "hugectr_lite/preparation/inspect/fit_check.h"

#include <functional>

#include "hugectr_lite/preparation/inspect/inspection.h"
#include "tests/preparation/inspect/fit_folder.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::changed;
using test::fit;
using test::FitFolder;
using test::SmallData;

TEST_CASE("fitting pairs are called fitting") {
  struct Case {
    const char* what;
    const char* format;
    std::function<void(FitFolder&)> setup;
  };
  const Case cases[] = {
      {"as it is", "RawAsync", [](FitFolder&) {}},
      {"evaluation data", "RawAsync", [](FitFolder& f) { f.role = config::Split::kEval; }},
      {"format Raw", "Raw", [](FitFolder&) {}},
      {"floats", "RawAsync",
       [](FitFolder& f) {
         f.write({.float_label = true, .float_dense = true});
         f.set = {"layers.data.float_label_dense=true"};
       }},
      {"float dense with integer labels", "RawAsync",
       [](FitFolder& f) {
         f.write({.float_dense = true});
         f.set = {"layers.data.async_param.is_dense_float=true"};
       }},
      {"several keys a slot", "RawAsync",
       [](FitFolder& f) {
         const SmallData many{.sizes = {50, 50, 7, 300, 300, 300, 1000}, .float_dense = true};
         f.write(many);
         f.set = {"layers.data.sparse.0.nnz_per_slot=[2,1,3,1]",
                  "layers.data.sparse.0.is_fixed_length=true",
                  "layers.data.sparse.0.max_feature_num_per_sample=7",
                  "layers.data.sparse.0.max_nnz=3"};
       }},
      {"with its manifest", "RawAsync", [](FitFolder& f) { f.write_manifest({}, "train"); }},
      {"another seed, one sample", "RawAsync",
       [](FitFolder& f) {
         f.write({.samples = 1, .seed = 9});
         f.set = {"layers.data.num_samples=1"};
       }},
      {"fewer samples used than there are", "RawAsync",
       [](FitFolder& f) { f.set = {"layers.data.num_samples=500"}; }},
      {"tables larger than needed", "RawAsync",
       [](FitFolder& f) {
         f.set = {"layers.emb.sparse_embedding_hparam.slot_size_array=[100,80,3000,1001]"};
       }},
      {"only labels 0", "RawAsync",
       [](FitFolder& f) { f.write_words(changed({}, [](int64_t, uint32_t* w) { w[0] = 0; })); }},
      {"dense values all zero", "RawAsync",
       [](FitFolder& f) {
         f.write_words(changed({}, [](int64_t, uint32_t* w) { w[1] = w[2] = w[3] = 0; }));
       }},
      {"Norm with checksums", "Norm", [](FitFolder&) {}},
      {"Norm evaluation data", "Norm", [](FitFolder& f) { f.role = config::Split::kEval; }},
      {"Norm without checksums", "Norm",
       [](FitFolder& f) {
         f.write_norm({.sum = false});
         f.set = {"layers.data.check=None"};
       }},
      {"Norm with global keys", "Norm",
       [](FitFolder& f) {
         f.write_norm({.global_keys = true});
         f.set = {"layers.data.keys=global"};
       }},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    FitFolder folder(c.format);
    c.setup(folder);
    const FitReport report = fit(folder);
    if (!report.fits()) INFO(report.faults[0].fault << ": " << report.faults[0].message);
    CHECK(report.fits());
    if (!report.fits()) WARN(report.faults[0].fault << ": " << report.faults[0].message);
  }
}

TEST_CASE("slots of one vocabulary that have tables of their own are noted, not refused") {
  FitFolder folder;
  const SmallData data{.sizes = {300, 7, 300, 1000}};
  folder.write(data);
  folder.write_manifest(data, "train", {"items", "cities", "items", "users"});
  const std::string hparam = "layers.emb.sparse_embedding_hparam.";
  folder.set = {hparam + "slot_size_array=[300,7,300,1000]"};
  const FitReport report = fit(folder);
  CHECK(report.fits());
  REQUIRE(report.notes.size() == 1);
  test::check_contains(report.notes[0], {"manifest.json: some slots of \"emb\" share a vocabulary",
                                         "\"slot_tables\": [0,1,0,2]"});
  for (const char* tables : {"[0,1,0,2]", "[0,1,2,3]"}) {
    folder.set.resize(1);
    folder.set.push_back(hparam + "slot_tables=" + tables);
    const FitReport shared = fit(folder);
    CHECK(shared.fits());
    CHECK(shared.notes.empty());
  }
  const Inspection inspection = inspect_file(folder.train(), nullptr, {}, {});
  test::check_contains(report_text(inspection), {"\"slot_tables\": [0,1,0,2]"});
}

TEST_CASE("Criteo's lines fit a config that reads them, as far as they are lines") {
  const test::TemporaryDirectory folder;
  const auto config = config::load_train_config(
      std::string(HLITE_CONFIGS) + "/criteo_text.json",
      {"layers.data.source=" + (folder / "a.tsv"), "layers.data.eval_source=none.tsv"});
  const auto fit_of = [&](const std::string& text) {
    test::write_text(folder / "a.tsv", text);
    return check_fit(
        {*config, config::Split::kTrain, folder / "a.tsv", slot_rows_of(*config), INT64_MAX});
  };
  const std::string good = SmallData().criteo_text();
  CHECK(fit_of(good).fits());
  const auto fault_of = [&](const std::string& text) {
    const FitReport report = fit_of(text);
    REQUIRE(report.faults.size() == 1);
    return report.faults[0].fault + ": " + report.faults[0].message;
  };
  test::check_contains(fault_of(good + "2\t3\n"), {"records: ", "a.tsv:", "expected 40"});
  test::check_contains(fault_of(SmallData().raw()),
                       {"wrong_format: ", "the config expects lines of Criteo's logs"});
}

TEST_CASE("a file of one kind of label is noted, not refused") {
  FitFolder folder;
  folder.write_words(changed({}, [](int64_t, uint32_t* w) { w[0] = 0; }));
  const FitReport report = fit(folder);
  REQUIRE(report.notes.size() == 1);
  test::check_contains(report.notes[0], {"no label is 1"});
}

}  // namespace
}  // namespace hlite::prep
