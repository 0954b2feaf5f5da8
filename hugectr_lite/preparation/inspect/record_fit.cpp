// The records of a file are compared with a config: the trainer's reader reads them, and all that
// it would refuse is counted. If another config would read them, that is the fault's name.
#include <algorithm>
#include <cmath>

#include "data_reader/history_check.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/inspect/fit_check.h"
#include "hugectr_lite/preparation/inspect/issue_counts.h"

namespace hlite::prep {
namespace {

using data::IssueKind;

// What a reader made of a file.
struct Reading {
  std::string error;  // at which it stopped; "": it did not
  IssueCounts issues;
  int64_t rows = 0, samples = 0, replaced_keys = 0;
  int64_t zeros = 0, ones = 0;  // labels
  int64_t tiny_labels = 0;      // as integers are whose bits are taken for a float
  // Dense features that are not 0; those of them that integers' bits taken for a float would be, or
  // logarithms of a float's bits.
  int64_t dense = 0, odd_dense = 0;
  // Of each history: keys that are kept, samples with none, and with as many as are kept at most.
  struct Lengths {
    int64_t keys = 0, empty = 0, full = 0;
  };
  std::vector<Lengths> histories;
  [[nodiscard]] bool has_odd_type() const { return tiny_labels > 0 || odd_dense * 10 > dense * 9; }
};

void count_values(const config::DataConfig& data, const data::HostBatch& batch, Reading& reading) {
  const bool logarithms = data.format->fixed_records && !data.float_dense;
  const float large = std::log(0x1p23f);
  for (int64_t r = 0; r < batch.size; ++r) {
    reading.zeros += batch.labels(r, 0) == 0;
    reading.ones += batch.labels(r, 0) == 1;
    reading.tiny_labels += std::fpclassify(batch.labels(r, 0)) == FP_SUBNORMAL;
    for (int64_t d = 0; d < data.dense_dim; ++d) {
      const float value = batch.dense(r, d);
      reading.dense += value != 0;
      reading.odd_dense += logarithms ? value > large : std::fpclassify(value) == FP_SUBNORMAL;
    }
  }
}

void count_histories(const config::DataConfig& data, const data::HostBatch& batch,
                     Reading& reading) {
  const std::vector<int64_t> columns = data.key_layout().first_column;
  const std::vector<data::History> histories = data::histories_of(data);
  reading.histories.resize(histories.size());
  for (size_t h = 0; h < histories.size(); ++h) {
    const auto slot = static_cast<size_t>(histories[h].first_slot);
    const int64_t most = data.key_layout().hotness[slot];
    for (int64_t r = 0; r < batch.size; ++r) {
      const uint32_t* const keys = batch.keys.row(r) + columns[slot];
      const int64_t length = std::find(keys, keys + most, kNoKey) - keys;
      reading.histories[h].keys += length;
      reading.histories[h].empty += length == 0;
      reading.histories[h].full += length == most;
    }
  }
}

class RecordFit {
 public:
  RecordFit(const FitCase& fit, FitReport& report)
      : fit_(fit), keys_(fit.config.data.key_layout()), tables_(fit.slot_rows), report_(report) {
    if (tables_.empty()) tables_.assign(static_cast<size_t>(keys_.slots()), kNoKey);
  }

  void check() {
    const config::DataConfig& data = fit_.config.data;
    const Reading found = read(data);
    const int64_t record = data::record_format(data).record_bytes(data);
    const int64_t bytes = record > 0 ? ReadFile(fit_.path).size() : 0;
    if (bytes > 0 && bytes % record != 0)
      return report_.fail(
          "record_size",
          fmt::format("{}: {} records and {} bytes of another", found.error, bytes / record,
                      bytes % record),
          "the file was cut short, or its records have other columns than the config says");
    if (!describe(found).empty()) {
      if (!explain(found)) say(found);
    } else if (!found.has_odd_type() || !explain(found)) {
      note(found);
    }
  }

 private:
  // Reads the file as training on `data` would.
  [[nodiscard]] Reading read(config::DataConfig data) const {
    const int64_t wanted = data.samples_of(fit_.role).value_or(0);
    data.num_samples = data.eval_num_samples = {};
    data.async_param = {};
    data.num_workers = 1;
    data.global_keys &= !fit_.slot_rows.empty();
    Reading reading;
    try {
      const auto source = data::open_source(
          data, fit_.path, fit_.role, kBatch, tables_,
          {.repeat = false, .max_samples = std::max(fit_.wanted, wanted), .sink = &reading.issues});
      reading.samples = source->samples();
      while (reading.rows < fit_.wanted) {
        const data::HostBatch& batch = source->next();
        if (batch.size == 0) break;
        reading.rows += batch.size;
        count_values(data, batch, reading);
        count_histories(data, batch, reading);
      }
      reading.replaced_keys = source->replaced_keys();
    } catch (const DataError& error) {
      reading.error = error.what();
    }
    return reading;
  }

  // Looks for a config that reads the file.
  bool explain(const Reading& found) {
    const config::DataConfig& data = fit_.config.data;
    const bool numbers = data.format->fixed_records && !data.format->tokens;
    const auto tries = [&](bool sensible, const char* fault, const std::string& what,
                           const char* advice, auto&& change) {
      config::DataConfig other = data;
      change(other);
      if (!sensible || !report_.fits()) return;
      const Reading read_so = read(other);
      if (!read_so.error.empty() || worst(read_so) || read_so.has_odd_type()) return;
      const std::string problem = describe(found);
      report_.fail(fault,
                   fmt::format("{}{}{}", problem.empty() ? fit_.path : problem,
                               problem.empty() ? ": " : "; ", what),
                   advice);
    };
    tries(numbers && !data.float_label, "float_label",
          "its labels and dense features are float32; the config expects int32",
          "set \"float_label_dense\": true",
          [](config::DataConfig& other) { other.float_label = other.float_dense = true; });
    tries(numbers && !data.float_dense, "float_dense",
          "its dense features are float32; the config expects int32",
          "set \"is_dense_float\": true in async_param",
          [](config::DataConfig& other) { other.float_dense = true; });
    tries(numbers && data.float_label, "integer_label",
          "its labels and dense features are int32; the config expects float32",
          "set \"float_label_dense\": false",
          [](config::DataConfig& other) { other.float_label = other.float_dense = false; });
    tries(numbers && data.float_dense, "integer_dense",
          "its dense features are int32; the config expects float32",
          "set \"is_dense_float\": false in async_param",
          [](config::DataConfig& other) { other.float_dense = false; });
    tries(!data.format->fixed_records, data.global_keys ? "local_keys" : "global_keys",
          data.global_keys ? "keys are local to their tables" : "keys count on from table to table",
          data.global_keys ? "\"keys\": \"local\"" : "\"keys\": \"global\"",
          [](config::DataConfig& other) { other.global_keys = !other.global_keys; });
    tries(!data.format->fixed_records, "norm_keys",
          fmt::format("its keys have {} bits, the config says {}", data.int64_keys ? 32 : 64,
                      data.int64_keys ? 64 : 32),
          data.int64_keys ? "solver.input_key_type I32" : "solver.input_key_type I64",
          [](config::DataConfig& other) { other.int64_keys = !other.int64_keys; });
    return !report_.fits();
  }

  struct Worst {
    IssueKind kind;
    int64_t column;
    const IssueCounts::Tally& tally;
  };
  // The column with the most issues of the first kind that has any; keys come last.
  static std::optional<Worst> worst(const Reading& reading) {
    for (int kind = 0; kind < data::kIssueKinds; ++kind) {
      const auto k = static_cast<IssueKind>(kind);
      if (const auto column = reading.issues.worst(k))
        return Worst{k, *column, reading.issues.columns(k).at(*column)};
    }
    return std::nullopt;
  }

  // Why training would refuse the file; "" where it would not.
  [[nodiscard]] std::string describe(const Reading& found) const {
    if (!found.error.empty()) return found.error;
    const auto bad = worst(found);
    if (!bad) return "";
    const IssueCounts::Tally& t = bad->tally;
    if (bad->kind == IssueKind::kKey)
      return fmt::format(
          "{}: {}: {} of {} are outside of its table of {} rows, the first in record {}; they go "
          "from {} to {}",
          fit_.path, keys_.describe(bad->column), t.count, found.rows,
          tables_[static_cast<size_t>(keys_.slot_of(bad->column))], t.record, t.least, t.largest);
    const auto [what, expected] = data::words_of(bad->kind, bad->column);
    return fmt::format("{}: {}: {} of {} are not {}; the first is {} in record {}", fit_.path, what,
                       t.count, found.rows, expected, t.found, t.record);
  }

  void say(const Reading& found) {
    const auto bad = worst(found);
    if (!found.error.empty())
      report_.fail("records", describe(found),
                   "let the config say what the records hold, or prepare the file again");
    else if (bad->kind == IssueKind::kKey)
      report_.fail("key_range", describe(found),
                   fmt::format("slot_size_array: at least {} rows", bad->tally.largest + 1));
    else
      report_.fail(bad->kind == IssueKind::kNotFinite  ? "not_finite"
                   : bad->kind == IssueKind::kNegative ? "negative_dense"
                                                       : "label_values",
                   describe(found));
  }

  void note(const Reading& found) {
    const auto& wanted = fit_.config.data.samples_of(fit_.role);
    if (wanted && *wanted > found.samples) {
      const char* key = config::DataConfig::samples_key(fit_.role);
      return report_.fail("num_samples",
                          fmt::format("{}: has {} samples; the config's {} says {}", fit_.path,
                                      found.samples, key, *wanted),
                          fmt::format("\"{}\": {}", key, found.samples));
    }
    const auto notes = [&](bool odd, const std::string& text) {
      if (odd) report_.notes.push_back(fit_.path + ": " + text);
    };
    const bool labels = !fit_.config.data.real_label && found.rows > 0;
    notes(labels && found.ones == 0, "no label is 1");
    notes(labels && found.zeros == 0, "no label is 0");
    const std::vector<data::History> histories = data::histories_of(fit_.config.data);
    for (size_t h = 0; h < found.histories.size() && found.rows > 0; ++h) {
      const auto& [keys, empty, full] = found.histories[h];
      const auto share = [&](int64_t of) {
        return 100 * static_cast<double>(of) / static_cast<double>(found.rows);
      };
      notes(true, fmt::format("{}: on average {:.1f} keys of up to {} are kept; {:.1f} % of the "
                              "samples have none, {:.1f} % as many",
                              histories[h].name, share(keys) / 100,
                              keys_.hotness[static_cast<size_t>(histories[h].first_slot)],
                              share(empty), share(full)));
    }
    notes(found.replaced_keys > 0,
          fmt::format("{} keys are outside of their tables, which key_policy replaces",
                      found.replaced_keys));
  }

  static constexpr int64_t kBatch = 4096;
  const FitCase& fit_;
  const KeyLayout keys_;
  std::vector<int64_t> tables_;  // rows of each slot's; as large as can be where unknown
  FitReport& report_;
};

}  // namespace

void check_records(const FitCase& fit, FitReport& report) { RecordFit(fit, report).check(); }

}  // namespace hlite::prep
