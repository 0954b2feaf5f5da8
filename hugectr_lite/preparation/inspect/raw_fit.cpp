// A raw file is compared with a config: the size of its records first, then what is in them.
#include <algorithm>

#include "data_reader/raw_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/inspect/fit_check.h"
#include "hugectr_lite/preparation/inspect/issue_counts.h"
#include "hugectr_lite/preparation/inspect/raw_shape.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {
namespace {

using data::IssueKind;

// A run of the trainer's decoder over the records of a file in the layout of the config.
struct Scan {
  int64_t records = 0;
  int64_t label_zeros = 0, label_ones = 0;
  IssueCounts issues;
  struct Keys {
    uint32_t least = UINT32_MAX, largest = 0;
  };
  std::vector<Keys> keys;  // columns
};

Scan scan(const FitCase& fit, const data::RawFormat& format) {
  constexpr int64_t kChunkBytes = 1 << 20;
  Scan s;
  s.keys.resize(static_cast<size_t>(format.keys.columns));
  std::vector<int64_t> tables = fit.slot_rows;
  if (tables.empty()) tables.assign(static_cast<size_t>(format.keys.slots()), kNoKey);
  data::RawDecoder decoder(fit.path, format, tables, {}, s.issues);
  const ReadFile file(fit.path);
  const int64_t record = format.record_bytes(), most = std::max<int64_t>(1, kChunkBytes / record);
  data::BatchBuffer buffer(most, format.label_width(), format.dense_dim, format.keys.columns);
  std::vector<std::byte> bytes;
  for (const auto& [first, count] : sample_blocks(file.size() / record, fit.wanted, 1)) {
    for (int64_t at = 0; at < count; at += most) {
      const int64_t rows = std::min(most, count - at);
      bytes.resize(static_cast<size_t>(rows * record));
      file.read((first + at) * record, bytes);
      data::HostBatch& batch = buffer.batch();
      decoder.decode(bytes, first + at, rows, batch, 0);
      s.records += rows;
      for (int64_t r = 0; r < rows; ++r) {
        s.label_zeros += batch.labels(r, 0) == 0;
        s.label_ones += batch.labels(r, 0) == 1;
        for (int64_t c = 0; c < format.keys.columns; ++c) {
          Scan::Keys& k = s.keys[static_cast<size_t>(c)];
          const uint32_t key = batch.keys(r, c);
          if (key == kNoKey && format.varies(c)) continue;
          k.least = std::min(k.least, key);
          k.largest = std::max(k.largest, key);
        }
      }
    }
  }
  return s;
}

// The start of a file, as whole words.
std::vector<uint32_t> read_head(const std::string& path) {
  constexpr int64_t kHeadBytes = 4 << 20;
  const ReadFile file(path);
  std::vector<uint32_t> words(static_cast<size_t>(std::min(kHeadBytes, file.size()) / 4));
  file.read(0, std::as_writable_bytes(std::span(words)));
  return words;
}

class RawFit {
 public:
  RawFit(const FitCase& fit, const FileFacts& file, FitReport& report)
      : fit_(fit),
        file_(file),
        report_(report),
        format_(data::RawFormat::from(fit.config.data)),
        words_(format_.record_bytes() / 4),
        head_(read_head(fit.path)),
        found_words_(format_.real_label ? 0 : find_record_words(head_, file.bytes)) {}

  void check() {
    if (check_size() || check_label() || check_dense() || check_keys()) return;
    check_samples();
    const bool labels =
        !format_.real_label && report_.fits() && scan_.issues.total(IssueKind::kLabel) == 0;
    if (labels && scan_.label_ones == 0)
      report_.notes.push_back(fmt::format("{}: no label is 1", fit_.path));
    if (labels && scan_.label_zeros == 0)
      report_.notes.push_back(fmt::format("{}: no label is 0", fit_.path));
  }

 private:
  bool fail(std::string fault, std::string message, std::string advice = "") {
    report_.fail(std::move(fault), fmt::format("{}: {}", fit_.path, message), std::move(advice));
    return true;
  }

  // Column `column` in the config's record size.
  [[nodiscard]] WordColumn column(int64_t c) const { return inspect_column(head_, words_, c); }

  bool check_size() {
    const int64_t record = format_.record_bytes();
    if (found_words_ > 0 && found_words_ != words_) {
      // The size found must explain the file better than the config does.
      const WordColumn label = column(0);
      const bool ours = file_.bytes % record == 0 &&
                        (format_.float_label ? label.labels_float : label.labels_integer) &&
                        words_ % found_words_ != 0;
      if (!ours) return fail("record_size", size_message(), size_advice());
    }
    if (file_.bytes < record) {
      return fail("truncated",
                  fmt::format("expected at least one record of {} bytes, found {} bytes",
                              format_.describe_record(), file_.bytes));
    }
    if (const int64_t rest = file_.bytes % record; rest != 0) {
      return fail(
          "truncated",
          fmt::format(
              "expected a multiple of {} bytes, found {}: {} records and {} bytes of another",
              format_.describe_record(), file_.bytes, file_.bytes / record, rest),
          "the file was cut short, or has extra bytes at its end: copy or prepare it again");
    }
    return false;
  }

  [[nodiscard]] std::string size_message() const {
    return fmt::format("records of {} bytes (each begins with a label, 0 or 1); the config says {}",
                       4 * found_words_, format_.describe_record());
  }
  [[nodiscard]] std::string size_advice() const {
    const int64_t slots = found_words_ - format_.label_width() - format_.dense_dim;
    std::string advice;
    if (slots > 0 && format_.keys.is_one_hot()) {
      advice = fmt::format("slot_num {} would fit with dense_dim {}", slots, format_.dense_dim);
    }
    const int64_t dense = found_words_ - format_.label_width() - format_.keys.columns;
    if (dense > 0) {
      advice += fmt::format("{}dense_dim {} would fit with {} keys", advice.empty() ? "" : "; ",
                            dense, format_.keys.columns);
    }
    if (found_words_ == 40 && format_.dense_dim != 13) {
      advice += fmt::format("{}160 bytes are Criteo's 1 label + 13 dense + 26 keys",
                            advice.empty() ? "" : "; ");
    }
    return advice;
  }

  bool check_label() {
    scan_ = scan(fit_, format_);
    const WordColumn label = column(0);
    if (!format_.float_label && label.labels_float) {
      return fail("float_label",
                  "its labels are float32 (0.0 and 1.0); the config expects int32, to which 1.0 is "
                  "1065353216",
                  "set \"float_label_dense\": true");
    }
    if (format_.float_label && label.labels_integer && !format_.real_label) {
      return fail(
          "integer_label",
          "its labels are int32 (0 and 1); the config expects float32, to which 1 is 1.4e-45",
          "set \"float_label_dense\": false");
    }
    for (const IssueKind kind : {IssueKind::kRealLabel, IssueKind::kWeight})
      if (const auto worst = scan_.issues.worst(kind)) {
        const IssueCounts::Tally& first = scan_.issues.columns(kind).at(*worst);
        const auto [what, expected] = data::words_of(kind, *worst);
        return fail(
            "label_values",
            fmt::format("{}: {} of {} are not {}; the first is {} in record "
                        "{}",
                        what, first.count, scan_.records, expected, first.found, first.record));
      }
    const auto bad = scan_.issues.worst(IssueKind::kLabel);
    if (!bad) return false;
    const IssueCounts::Tally& first = scan_.issues.columns(IssueKind::kLabel).at(*bad);
    return fail("label_values",
                fmt::format("{} of {} labels are not {}; the first is {} in record {}", first.count,
                            scan_.records, format_.float_label ? "in [0, 1]" : "0 or 1",
                            first.found, first.record));
  }

  bool check_dense() {
    int64_t floats = 0, integers = 0;
    for (int64_t d = 0; d < format_.dense_dim; ++d) {
      const WordColumn c = column(format_.label_width() + d);
      floats += c.floats;
      integers += !c.floats && !c.zeros;
    }
    if (!format_.float_dense && floats > 0) {
      return fail("float_dense",
                  fmt::format("{} of its {} dense columns are float32; the config expects int32",
                              floats, format_.dense_dim),
                  "set \"float_label_dense\": true if the labels are float32 too, else "
                  "async_param.is_dense_float");
    }
    if (format_.float_dense && integers > 0) {
      return fail("integer_dense",
                  fmt::format("{} of its {} dense columns are int32; the config expects float32",
                              integers, format_.dense_dim),
                  "set \"float_label_dense\": false");
    }
    if (const auto worst = scan_.issues.worst(IssueKind::kNegative)) {
      const IssueCounts::Tally& n = scan_.issues.columns(IssueKind::kNegative).at(*worst);
      return fail("negative_dense",
                  fmt::format("dense column {}: {} of {} values are negative, the first is {} in "
                              "record {}; the feature is log(x + 1)",
                              *worst, n.count, scan_.records, n.found, n.record),
                  "prepare the data with negative values as 0");
    }
    if (const auto worst = scan_.issues.worst(IssueKind::kNotFinite)) {
      const IssueCounts::Tally& n = scan_.issues.columns(IssueKind::kNotFinite).at(*worst);
      return fail(
          "not_finite",
          fmt::format(
              "dense column {}: {} of {} values are no finite numbers, the first in record {}",
              *worst, n.count, scan_.records, n.record));
    }
    return false;
  }

  // Largest key of each slot over its columns.
  [[nodiscard]] std::vector<int64_t> largest_of_slots() const {
    std::vector<int64_t> largest(static_cast<size_t>(format_.keys.slots()), 0);
    for (size_t c = 0; c < scan_.keys.size(); ++c) {
      auto& l = largest[static_cast<size_t>(format_.keys.slot_of(static_cast<int64_t>(c)))];
      l = std::max(l, int64_t{scan_.keys[c].largest});
    }
    return largest;
  }

  bool check_keys() {
    const auto worst_column = scan_.issues.worst(IssueKind::kKey);
    if (!worst_column || fit_.slot_rows.empty()) return false;
    const int64_t worst = *worst_column;
    const auto& columns = scan_.issues.columns(IssueKind::kKey);
    const int64_t outside = std::ssize(columns);
    const IssueCounts::Tally& k = columns.at(worst);
    const std::vector<int64_t> largest = largest_of_slots();
    const auto slot = static_cast<size_t>(format_.keys.slot_of(worst));
    const std::string found = fmt::format(
        "{} of {} key columns have keys outside of their tables; {}: the largest is {}, the table "
        "has {} rows, {} of {} keys are outside, the first in record {}",
        outside, scan_.keys.size(), format_.keys.describe(worst), k.largest, fit_.slot_rows[slot],
        k.count, scan_.records, k.record);
    if (are_global()) {
      return fail("global_keys", found + "; they count on from slot to slot",
                  "subtract from each key the rows of the tables before its own");
    }
    const bool by_one = std::equal(largest.begin(), largest.end(), fit_.slot_rows.begin(),
                                   [](int64_t l, int64_t rows) { return l <= rows; });
    return fail(
        "key_range", found,
        fmt::format(
            "{}sizes needed: [{}]",
            by_one ? "each table lacks one row (of missing values, or keys count from 1); " : "",
            join(largest)));
  }

  // `largest` + 1, as a config writes it.
  static std::string join(const std::vector<int64_t>& largest) {
    std::string text;
    for (const int64_t l : largest) text += fmt::format("{}{}", text.empty() ? "" : ", ", l + 1);
    return text;
  }

  [[nodiscard]] bool are_global() const {
    int64_t first = 0;
    for (int64_t s = 0; s < format_.keys.slots(); ++s) {
      const auto i = static_cast<size_t>(s);
      for (int64_t j = 0; j < format_.keys.hotness[i]; ++j) {
        const Scan::Keys& k = scan_.keys[static_cast<size_t>(format_.keys.first_column[i] + j)];
        if (k.least < first || k.largest >= first + fit_.slot_rows[i]) return false;
      }
      first += fit_.slot_rows[i];
    }
    return format_.keys.slots() > 1;
  }

  void check_samples() {
    const auto& wanted = fit_.config.data.samples_of(fit_.role);
    const int64_t records = file_.bytes / format_.record_bytes();
    check_count(fit_, "has", records, report_);
    if (!wanted || *wanted >= records) return;
    report_.notes.push_back(fmt::format("{}: {} of {} samples are used ({})", fit_.path, *wanted,
                                        records, config::DataConfig::samples_key(fit_.role)));
  }

  const FitCase& fit_;
  const FileFacts& file_;
  FitReport& report_;
  data::RawFormat format_;
  int64_t words_;  // of a record in the config
  std::vector<uint32_t> head_;
  int64_t found_words_;  // words a record, found in the file; 0: unknown
  Scan scan_;
};

}  // namespace

void check_raw(const FitCase& fit, const FileFacts& file, FitReport& report) {
  RawFit(fit, file, report).check();
}

}  // namespace hlite::prep
