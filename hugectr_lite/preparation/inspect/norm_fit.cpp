// A list of Norm files is compared with a config: headers first, then records.
#include <algorithm>

#include "data_reader/norm_decoder.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/inspect/fit_check.h"
#include "hugectr_lite/preparation/inspect/issue_counts.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {
namespace {

using data::IssueKind;

class NormFit {
 public:
  NormFit(const FitCase& fit, FitReport& report)
      : fit_(fit),
        data_(fit.config.data),
        layout_(data_.key_layout()),
        tables_(fit.slot_rows),
        report_(report) {
    data_.key_policy = {};  // what a policy would replace is shown too
    if (!tables_.empty()) return;
    tables_.assign(static_cast<size_t>(layout_.slots()), kNoKey);
    data_.global_keys = false;
  }

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
    report_.fail(std::move(fault), std::move(message), std::move(advice));
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
      if (h.sum != data_.checksums) {
        return fail(
            "check_flag",
            fmt::format("{}: its header says {} checksums; the config's \"check\" is \"{}\"", path,
                        h.sum ? "with" : "without", data_.checksums ? "Sum" : "None"),
            fmt::format("\"check\": \"{}\"", h.sum ? "Sum" : "None"));
      }
      if (h.label_dim != data_.label_width() || h.dense_dim != data_.dense_dim ||
          h.slots != layout_.slots()) {
        return fail("norm_dims",
                    fmt::format("{}: its header says label_dim {}, dense_dim {}, slot_num {}; the "
                                "config says {}, {}, {}",
                                path, h.label_dim, h.dense_dim, h.slots, data_.label_width(),
                                data_.dense_dim, layout_.slots()),
                    fmt::format("label_dim {}, dense_dim {}, slot_num {}", h.label_dim, h.dense_dim,
                                h.slots));
      }
    }
    return true;
  }

  // The trainer's decoder over the records, all that is wrong with their values.
  [[nodiscard]] IssueCounts read(const config::DataConfig& data) const {
    constexpr int64_t kRows = 1024;
    IssueCounts issues;
    data::NormStream stream(data, fit_.path, tables_, issues);
    data::BatchBuffer buffer(kRows, data.label_width(), data.dense_dim, layout_.columns);
    const int64_t end = std::min(fit_.wanted, stream.samples());
    while (stream.position() < end)
      stream.decode(std::min(kRows, end - stream.position()), buffer.batch(), 0);
    return issues;
  }

  void check_records() {
    const auto rows = norm_rows(files_, data_.int64_keys, fit_.wanted);
    std::vector<int64_t> hotness(static_cast<size_t>(layout_.slots()), 0);
    for (const int s : rows->schema().slot_of) ++hotness[static_cast<size_t>(s)];
    for (size_t s = 0; s < hotness.size(); ++s) {
      if (hotness[s] > layout_.hotness[s]) {
        fail("norm_keys",
             fmt::format("{}: slot {} has up to {} keys a sample; the config allows {}", fit_.path,
                         s, hotness[s], layout_.hotness[s]),
             "raise max_nnz or nnz_per_slot");
        return;
      }
    }
    const IssueCounts issues = read(data_);
    if (const int64_t labels = issues.total(IssueKind::kLabel); labels > 0) {
      fail("label_values", fmt::format("{}: {} labels are not in [0, 1]", fit_.path, labels),
           data_.int64_keys ? "" : "if its keys have 64 bits: solver.input_key_type I64");
      return;
    }
    for (const IssueKind kind : {IssueKind::kRealLabel, IssueKind::kWeight})
      if (const int64_t found = issues.total(kind); found > 0) {
        const auto [what, expected] = data::words_of(kind, 0);
        fail("label_values",
             fmt::format("{}: {}: {} are not {}", fit_.path, what, found, expected));
        return;
      }
    if (const int64_t values = issues.total(IssueKind::kNotFinite); values > 0) {
      fail("not_finite",
           fmt::format("{}: {} dense values are no finite numbers", fit_.path, values));
      return;
    }
    check_keys(issues);
    check_count(fit_, "the headers of its files say", rows->rows_in_file(), report_);
  }

  void check_keys(const IssueCounts& issues) {
    const auto column = issues.worst(IssueKind::kKey);
    if (!column || fit_.slot_rows.empty()) return;
    const IssueCounts::Tally& k = issues.columns(IssueKind::kKey).at(*column);
    const std::string found = fmt::format(
        "{}: {}: {} keys are outside of its table of {} rows, the first in record {}; they go from "
        "{} to {}",
        fit_.path, layout_.describe(*column), k.count,
        fit_.slot_rows[static_cast<size_t>(layout_.slot_of(*column))], k.record, k.least,
        k.largest);
    config::DataConfig other = data_;
    other.global_keys = !data_.global_keys;
    if (read(other).total(IssueKind::kKey) > 0) {
      fail("key_range", found);
    } else if (other.global_keys) {
      fail("global_keys", found + "; keys count on from table to table", "\"keys\": \"global\"");
    } else {
      fail("local_keys", found + "; keys are local to their tables", "\"keys\": \"local\"");
    }
  }

  // Records that cannot be read: perhaps with keys of the other size.
  void explain_records(const std::string& problem) {
    config::DataConfig other = data_;
    other.int64_keys = !data_.int64_keys;
    bool fits = false;
    try {
      fits = read(other).total(IssueKind::kLabel) == 0;
    } catch (const DataError&) {
    }
    if (fits) {
      fail("norm_keys",
           fmt::format("{}; its keys have {} bits, the config says {}", problem,
                       data_.int64_keys ? 32 : 64, data_.int64_keys ? 64 : 32),
           fmt::format("solver.input_key_type {}", data_.int64_keys ? "I32" : "I64"));
      return;
    }
    fail("norm_records", problem, "the file is damaged or cut short: copy or prepare it again");
  }

  const FitCase& fit_;
  config::DataConfig data_;
  KeyLayout layout_;
  std::vector<int64_t> tables_;  // rows of each slot's; as large as can be where that is unknown
  FitReport& report_;
  std::vector<std::string> files_;
};

}  // namespace

void check_norm(const FitCase& fit, const FileFacts&, FitReport& report) {
  NormFit(fit, report).check();
}

}  // namespace hlite::prep
