#include "hugectr_lite/python/prepared_data.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"
#include "hugectr_lite/preparation/io/input_file.h"
#include "hugectr_lite/preparation/models/first_config.h"
#include "hugectr_lite/python/table.h"

namespace hlite::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

// `facts`: what histories.json would say, or "". `sizes`: JSON of what a caller chooses.
std::string config_of_prepared(const std::string& model, const std::string& path,
                               const std::string& facts, const std::string& sizes) {
  const config::JsonNode chosen = config::JsonNode::parse(sizes, model);
  return prep::first_config(model,
                            facts.empty()
                                ? prep::PreparedData::read(path)
                                : prep::PreparedData::of_histories(
                                      config::JsonNode::parse(facts, "prepared"), "prepared", ""),
                            &chosen);
}

// The manifest of samples that a caller has in arrays. There are no such files.
std::string config_of_sizes(const std::string& model, int64_t dense,
                            const std::vector<int64_t>& tables, const std::vector<int64_t>& hotness,
                            const std::vector<int64_t>& slot_tables, int64_t samples,
                            bool evaluates, int64_t labels) {
  data::Manifest m;
  m.float_label = m.float_dense = true;
  m.label_dim = labels;
  m.dense_dim = dense;
  m.slot_sizes = tables;
  m.hotness = hotness;
  m.slot_tables = slot_tables;
  const auto add = [&](const char* role, const char* name, int64_t rows) {
    data::ManifestFile& file = m.files.emplace_back();
    file.role = role;
    file.name = name;
    file.rows = rows;
  };
  add("train", "train.bin", samples);
  if (evaluates) add("val", "val.bin", 1);
  return prep::first_config(model, m, "");
}

void prepare_csv(prep::CsvPrepOptions options) {
  const InterruptGuard interrupts;
  try {
    const py::gil_scoped_release others;
    options.run.quiet = true;
    const data::Manifest manifest = prep::csv_prep(options);
    prep::write_first_config(options.output, manifest);
  } catch (const InterruptedError&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
}

constexpr size_t kReadAtOnce = 1 << 20;  // bytes; the longest line

// The categories of a key column that the preparation in `folder` numbered, in the order of their
// ids, and the id of the first. Those of criteo_prep are 32-bit numbers, as 8 hexadecimal digits.
std::pair<int64_t, std::vector<std::string>> categories_of(const std::string& folder, size_t slot) {
  const std::string path = folder + "/manifest.json";
  const data::Manifest m = data::Manifest::read(path);
  if (m.features_json.empty())
    raise<DataError>(
        "{}: expected the vocabulary of a preparation with --save-vocabulary, found none", path);
  const config::JsonNode features = config::JsonNode::parse(m.features_json, path);
  const auto& columns = config::to_list(config::member(features, "categorical"));
  if (slot >= columns.size())
    raise<DataError>("{}: expected a column below {}, found {}", path, columns.size(), slot);
  std::vector<std::string> texts;
  const std::string name = config::to_string(config::member(columns[slot], "vocabulary"));
  if (name.ends_with(".npy")) {
    const auto options = config::JsonNode::parse(m.options_json, path);
    const bool has_other = config::to_integer(config::member(options, "min_count")) > 0;
    prep::read_vocabulary(folder, columns[slot], has_other ? 1 : 0,
                          [&](uint64_t key) { texts.push_back(fmt::format("{:08x}", key)); });
    return {has_other ? 1 : 0, std::move(texts)};
  }
  prep::InputFile file(folder + "/" + name);
  prep::LineBlock block;
  while (file.next(block, kReadAtOnce))
    block.for_each_row([&](std::string_view line, int64_t) {
      texts.push_back(prep::category_of_line(line));
      return true;
    });
  return {1, std::move(texts)};
}

}  // namespace

void define_prepared_data(py::module_& module) {
  module.def("first_config", &config_of_prepared, "model"_a, "prepared"_a, "facts"_a = "",
             "sizes"_a = "{}");
  module.def("first_config_of_sizes", &config_of_sizes);
  module.def("first_config_models", &prep::first_config_models);
  module.def("has_tasks", &prep::has_tasks);
  module.def("reads_histories", &prep::reads_histories);
  module.def(
      "csv_prep",
      [](const std::string& schema, const std::string& train, const std::string& val,
         const std::string& out, int64_t min_count, const std::string& model, int threads,
         const std::string& continue_from) {
        prep::CsvPrepOptions options{.schema = schema, .train = {train}, .min_count = min_count};
        options.continue_from = continue_from;
        if (!val.empty()) options.val = {val};
        options.output.folder = out;
        options.output.config_of = model;
        options.run.threads = threads;
        prepare_csv(std::move(options));
      },
      "schema"_a, "train"_a, "val"_a, "out"_a, "min_count"_a, "model"_a, "threads"_a,
      "continue_from"_a);
  module.def("categories", &categories_of);
  module.def("csv_inputs", [](const std::string& schema) {
    return inputs_of(prep::CsvSchema::parse(config::JsonNode::parse(schema, "schema")), {});
  });
  module.def("write_table", &write_table);
}

}  // namespace hlite::python
