// What of a list of Norm files contradicts a config: headers first, then records.
#include <algorithm>
#include <cmath>

#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "tools/inspect/fit_check.h"
#include "tools/inspect/rows.h"

namespace hlite::tools {
namespace {

class NormFit {
 public:
  NormFit(const FitCase& fit, FitReport& report)
      : fit_(fit), data_(fit.config.data), layout_(data_.key_layout()), report_(report) {}

  void check() {
    try {
      files_ = data::read_file_list(fit_.path);
    } catch (const DataError& error) {
      fail("file_list", error.what());
      return;
    }
    if (!check_headers()) return;
    try {
      check_records();
    } catch (const DataError& error) {
      explain_records(error.what());
    }
  }

 private:
  bool fail(std::string fault, std::string message, std::string advice = "") {
    report_.faults.push_back({std::move(fault), std::move(message), std::move(advice)});
    return false;
  }

  bool check_headers() {
    for (const std::string& path : files_) {
      data::NormHeader h;
      try {
        h = data::read_norm_header(ReadFile(path));
      } catch (const FileError& error) {
        return fail("file_list", fmt::format("{} names a file that cannot be read: {}", fit_.path,
                                             error.what()));
      } catch (const DataError& error) {
        return fail("norm_header", error.what(), "the file is damaged, cut short, or no Norm file");
      }
      const bool sum = data_.check == "Sum";
      if (h.sum != sum) {
        return fail(
            "check_flag",
            fmt::format("{}: its header says {} checksums; the config's \"check\" is \"{}\"", path,
                        h.sum ? "with" : "without", data_.check),
            fmt::format("\"check\": \"{}\"", h.sum ? "Sum" : "None"));
      }
      if (h.label_dim != data_.label_dim || h.dense_dim != data_.dense_dim ||
          h.slots != layout_.slots()) {
        return fail("norm_dims",
                    fmt::format("{}: its header says label_dim {}, dense_dim {}, slot_num {}; the "
                                "config says {}, {}, {}",
                                path, h.label_dim, h.dense_dim, h.slots, data_.label_dim,
                                data_.dense_dim, layout_.slots()),
                    fmt::format("label_dim {}, dense_dim {}, slot_num {}", h.label_dim, h.dense_dim,
                                h.slots));
      }
    }
    return true;
  }

  struct SlotKeys {
    uint64_t least = UINT64_MAX, largest = 0;
    int64_t outside = 0;
    std::string first;
  };

  void check_records() {
    const auto rows = norm_rows(files_, data_.int64_keys, fit_.wanted);
    RowChunk chunk;
    std::vector<SlotKeys> slots(static_cast<size_t>(layout_.slots()));
    std::vector<int64_t> first_row(slots.size(), 0);
    for (size_t s = 1; s < slots.size() && !fit_.slot_rows.empty(); ++s)
      first_row[s] = first_row[s - 1] + fit_.slot_rows[s - 1];
    const std::vector<int>& slot_of = rows->schema().slot_of;
    std::vector<int64_t> hotness(slots.size(), 0);
    for (const int s : slot_of) ++hotness[static_cast<size_t>(s)];
    for (size_t s = 0; s < slots.size(); ++s) {
      if (hotness[s] > layout_.hotness[s]) {
        fail("norm_keys",
             fmt::format("{}: slot {} has up to {} keys a sample; the config allows {}", fit_.path,
                         s, hotness[s], layout_.hotness[s]),
             "raise max_nnz or nnz_per_slot");
        return;
      }
    }
    int64_t odd_labels = 0, not_finite = 0;
    while (rows->next(chunk)) {
      for (const double label : chunk.labels) odd_labels += !(label >= 0 && label <= 1);
      for (const double x : chunk.numbers) not_finite += !std::isfinite(x);
      for (size_t i = 0; i < chunk.keys.size(); ++i) {
        const uint64_t key = chunk.keys[i];
        if (key == kMissingKey) continue;
        const auto s = static_cast<size_t>(slot_of[i % slot_of.size()]);
        SlotKeys& k = slots[s];
        k.least = std::min(k.least, key);
        k.largest = std::max(k.largest, key);
        if (fit_.slot_rows.empty()) continue;
        const auto first = static_cast<uint64_t>(data_.global_keys ? first_row[s] : 0);
        const auto size = static_cast<uint64_t>(fit_.slot_rows[s]);
        k.outside += key < first || key >= first + size;
      }
    }
    if (odd_labels > 0) {
      fail("label_values", fmt::format("{}: {} labels are not in [0, 1]", fit_.path, odd_labels),
           data_.int64_keys ? "" : "if its keys have 64 bits: solver.input_key_type I64");
      return;
    }
    if (not_finite > 0) {
      fail("not_finite",
           fmt::format("{}: {} dense values are no finite numbers", fit_.path, not_finite));
      return;
    }
    check_keys(slots, first_row);
    check_count(rows->rows_in_file());
  }

  void check_keys(const std::vector<SlotKeys>& slots, const std::vector<int64_t>& first_row) {
    const auto worst =
        std::max_element(slots.begin(), slots.end(),
                         [](const auto& a, const auto& b) { return a.outside < b.outside; });
    if (worst == slots.end() || worst->outside == 0) return;
    const auto all = [&](bool global) {
      for (size_t s = 0; s < slots.size(); ++s) {
        const auto first = static_cast<uint64_t>(global ? first_row[s] : 0);
        const auto size = static_cast<uint64_t>(fit_.slot_rows[s]);
        if (slots[s].least == UINT64_MAX) continue;
        if (slots[s].least < first || slots[s].largest >= first + size) return false;
      }
      return true;
    };
    const auto s = static_cast<size_t>(worst - slots.begin());
    const std::string found = fmt::format(
        "{}: {} keys of slot {} are outside of its table of {} rows; they go from {} to {}",
        fit_.path, worst->outside, s, fit_.slot_rows[s], worst->least, worst->largest);
    if (!data_.global_keys && all(true)) {
      fail("global_keys", found + "; keys count on from table to table", "\"keys\": \"global\"");
    } else if (data_.global_keys && all(false)) {
      fail("local_keys", found + "; keys are local to their tables", "\"keys\": \"local\"");
    } else {
      fail("key_range", found);
    }
  }

  void check_count(int64_t records) {
    const bool train = fit_.role == DataRole::kTrain;
    const auto& wanted = train ? data_.num_samples : data_.eval_num_samples;
    if (wanted && *wanted > records) {
      const char* key = train ? "num_samples" : "eval_num_samples";
      fail("num_samples",
           fmt::format("{}: the headers of its files say {} samples; the config's {} says {}",
                       fit_.path, records, key, *wanted),
           fmt::format("\"{}\": {}", key, records));
    }
  }

  // Records that cannot be read: perhaps with keys of the other size.
  void explain_records(const std::string& problem) {
    bool other = true;
    try {
      const auto rows = norm_rows(files_, !data_.int64_keys, fit_.wanted);
      RowChunk chunk;
      while (other && rows->next(chunk))
        for (const double label : chunk.labels) other = other && label >= 0 && label <= 1;
    } catch (const DataError&) {
      other = false;
    }
    if (other) {
      fail("norm_keys",
           fmt::format("{}; its keys have {} bits, the config says {}", problem,
                       data_.int64_keys ? 32 : 64, data_.int64_keys ? 64 : 32),
           fmt::format("solver.input_key_type {}", data_.int64_keys ? "I32" : "I64"));
      return;
    }
    fail("norm_records", problem, "the file is damaged or cut short: copy or prepare it again");
  }

  const FitCase& fit_;
  const config::DataConfig& data_;
  KeyLayout layout_;
  FitReport& report_;
  std::vector<std::string> files_;
};

}  // namespace

void check_norm(const FitCase& fit, const FileFacts&, FitReport& report) {
  NormFit(fit, report).check();
}

}  // namespace hlite::tools
