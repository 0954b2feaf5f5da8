// A folder with a config and the data that fits it, to be broken.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/inspect/fit_check.h"
#include "tests/preparation/inspect/small_data.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

struct FitFolder {
  explicit FitFolder(const std::string& format = "RawAsync") {
    write_text(directory / "config.json", small_data_config(format));
    if (format == "Norm") {
      write_norm(SmallData());
      SmallData eval{.samples = 200, .seed = 2};
      write_text(directory / "eval_0.norm", eval.norm());
      write_text(directory / "eval.txt", "1\neval_0.norm\n");
    } else {
      write_text(train(), SmallData().raw());
      write_text(directory / "eval.bin", SmallData{.samples = 200, .seed = 2}.raw());
    }
  }
  [[nodiscard]] std::string train() const { return directory / "train.bin"; }
  void write(const SmallData& data) const { write_text(train(), data.raw()); }
  void write_words(const std::vector<uint32_t>& words) const {
    write_text(train(), SmallData::bytes_of(words));
  }
  void write_norm(const SmallData& data) const {
    write_text(directory / "train_0.norm", data.norm());
    write_text(directory / "train.txt", "1\ntrain_0.norm\n");
  }
  // `vocabularies`: of the slots C0, C1, ...; slots of equal ones share a table.
  void write_manifest(const SmallData& data, const std::string& of_role,
                      const std::vector<std::string>& vocabularies = {}) const {
    data::Manifest m;
    m.tool = "criteo_prep";
    m.dense_dim = data.dense;
    m.slot_sizes = data.sizes;
    m.hotness.assign(data.sizes.size(), 1);
    for (const std::string& vocabulary : vocabularies) {
      m.columns.push_back({.name = fmt::format("C{}", m.columns.size()), .vocabulary = vocabulary});
      const auto first = std::find(vocabularies.begin(), vocabularies.end(), vocabulary);
      const auto at = static_cast<size_t>(first - vocabularies.begin());
      const int64_t next = m.slot_tables.empty() ? 0 : 1 + *std::ranges::max_element(m.slot_tables);
      m.slot_tables.push_back(at < m.slot_tables.size() ? m.slot_tables[at] : next);
    }
    m.float_label = data.float_label;
    m.float_dense = data.float_dense;
    data::ManifestFile file;
    file.role = of_role;
    file.name = "train.bin";
    file.rows = data.samples;
    file.bytes = static_cast<int64_t>(data.raw().size());
    m.files.push_back(file);
    write_text(directory / "manifest.json", m.to_json());
  }
  std::vector<std::string> set;  // overrides of the config
  config::Split role = config::Split::kTrain;
  TemporaryDirectory directory;
};

inline prep::FitReport fit(const FitFolder& folder) {
  const auto config = config::load_train_config(folder.directory / "config.json", folder.set);
  const bool train = folder.role == config::Split::kTrain;
  const std::string path = config->resolve(train ? config->data.source : config->data.eval_source);
  return prep::check_fit({*config, folder.role, path, prep::slot_rows_of(*config), INT64_MAX});
}

// Every record's words changed.
inline std::vector<uint32_t> changed(SmallData data,
                                     const std::function<void(int64_t, uint32_t*)>& change) {
  std::vector<uint32_t> words = data.words();
  const auto record = words.size() / static_cast<size_t>(data.samples);
  for (int64_t r = 0; r < data.samples; ++r)
    change(r, words.data() + static_cast<size_t>(r) * record);
  return words;
}

}  // namespace hlite::test
