#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "hugectr_lite/preparation/inspect/inspection.h"

namespace hlite::prep {
namespace {

constexpr int64_t kManyRows = 60000;  // what a GPU's cache holds of rows of 128 floats

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string number_text(double x) { return fmt::format("{:.6g}", x); }

// The share that is missing, if the format marks missing values.
std::string missing_text(bool known, double part) {
  return known ? fmt::format("{:.4f}", part) : "unknown";
}

nlohmann::ordered_json missing_json(bool known, double part) {
  return known ? nlohmann::ordered_json(part) : nlohmann::ordered_json(nullptr);
}

std::string numbers_table(const Inspection& in) {
  std::string text = fmt::format("{:12}{:>12}{:>12}{:>12}{:>9}{:>9}{:>10}\n", "numbers", "min",
                                 "mean", "max", "missing", "zero", "negative");
  for (size_t i = 0; i < in.columns.numbers.size(); ++i) {
    const NumberStats& n = in.statistics->numbers[i];
    text += fmt::format("{:12}{:>12}{:>12}{:>12}{:>9}{:>9.4f}{:>10.4f}", in.columns.numbers[i],
                        number_text(n.min), number_text(n.mean()), number_text(n.max),
                        missing_text(in.columns.numbers_may_miss, share(n.missing, n.rows)),
                        share(n.zero, n.rows), share(n.negative, n.rows));
    if (n.not_finite > 0) text += fmt::format("  {} infinite", n.not_finite);
    text += '\n';
  }
  return text;
}

std::string keys_table(const Inspection& in) {
  std::string text = fmt::format("{:12}{:>11}{:>12}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "keys", "distinct",
                                 "largest", "missing", "top 1", "top 10", "top 100", "top 1000");
  for (size_t i = 0; i < in.columns.slots.size(); ++i) {
    const KeyStats& k = in.statistics->slots[i];
    text +=
        fmt::format("{:12}{:>11}{:>12}{:>9}", in.columns.slots[i],
                    fmt::format("{}{}", k.distinct_is_exact ? "" : ">", k.distinct),
                    in.columns.local_keys ? fmt::format("{}", k.largest) : "-",
                    missing_text(in.columns.keys_may_miss, share(k.missing, k.values + k.missing)));
    for (const double s : k.top_share) text += fmt::format("{:>9.4f}", s);
    if (k.outside > 0)
      text += fmt::format("  {} outside of the table's {} rows", k.outside, k.limit);
    text += '\n';
  }
  return text;
}

std::string skew_text(const Skew& skew) {
  std::string text = fmt::format("skew over all tables: {} look-ups of {}{} rows\n", skew.lookups,
                                 skew.exact ? "" : "more than ", skew.rows);
  for (const int64_t k : {int64_t{1}, int64_t{10}, int64_t{100}, int64_t{1000}, int64_t{10000},
                          kManyRows, int64_t{1000000}}) {
    if (k < skew.rows) {
      text += fmt::format("  top {:>8} rows take {:5.1f} % of the look-ups\n", k,
                          100 * skew.share_of(k));
    }
  }
  if (skew.batches > 0) {
    text += fmt::format(
        "a batch of {} looks up {:.0f} distinct rows, {:.1f} % of its {:.0f} look-ups\n",
        skew.batch, skew.distinct_in_batch, 100 * skew.distinct_in_batch / skew.lookups_in_batch,
        skew.lookups_in_batch);
  }
  return text;
}

}  // namespace

std::string report_text(const Inspection& in) {
  std::string text =
      fmt::format("{}: {}\n  {}: {}\n", in.file.path, in.schema, word(in.sure), in.why);
  for (const std::string& remark : in.remarks) text += "  " + remark + "\n";
  if (!in.statistics) return text;
  const FileStatistics& s = *in.statistics;
  text += in.part == "all" ? fmt::format("statistics of all {} rows\n", s.rows)
                           : fmt::format("statistics of {} rows: {} (--rows all looks at all)\n",
                                         s.rows, in.part);
  if (s.labels > 0) {
    text += fmt::format("label: {:.5f} are 1", share(s.positives, s.labels));
    if (s.odd_labels > 0) text += fmt::format(", {} are neither 0 nor 1", s.odd_labels);
    text += '\n';
  }
  if (!in.columns.numbers.empty()) text += numbers_table(in);
  if (!in.columns.slots.empty()) text += keys_table(in);
  return s.skew.lookups > 0 ? text + skew_text(s.skew) : text;
}

nlohmann::ordered_json report_json(const Inspection& in) {
  using nlohmann::ordered_json;
  ordered_json json = {{"file", in.file.path},   {"kind", describe(in.file)},
                       {"bytes", in.file.bytes}, {"schema", in.schema},
                       {"sure", word(in.sure)},  {"why", in.why},
                       {"remarks", in.remarks}};
  if (in.statistics) {
    const FileStatistics& s = *in.statistics;
    json["rows_in_file"] = in.rows_in_file;
    json["rows"] = s.rows;
    json["part"] = in.part;
    if (s.labels > 0) {
      json["label_rate"] = share(s.positives, s.labels);
      json["odd_labels"] = s.odd_labels;
    }
    json["numbers"] = ordered_json::array();
    for (size_t i = 0; i < s.numbers.size(); ++i) {
      const NumberStats& n = s.numbers[i];
      json["numbers"].push_back(
          {{"name", in.columns.numbers[i]},
           {"min", n.min},
           {"mean", n.mean()},
           {"max", n.max},
           {"missing", missing_json(in.columns.numbers_may_miss, share(n.missing, n.rows))},
           {"zero", share(n.zero, n.rows)},
           {"negative", share(n.negative, n.rows)},
           {"not_finite", n.not_finite}});
    }
    json["keys"] = ordered_json::array();
    for (size_t i = 0; i < s.slots.size(); ++i) {
      const KeyStats& k = s.slots[i];
      json["keys"].push_back({{"name", in.columns.slots[i]},
                              {"distinct", k.distinct},
                              {"distinct_is_exact", k.distinct_is_exact},
                              {"largest", k.largest},
                              {"missing", missing_json(in.columns.keys_may_miss,
                                                       share(k.missing, k.values + k.missing))},
                              {"top_share", k.top_share},
                              {"rows_of_table", k.limit},
                              {"outside", k.outside}});
    }
    auto curve = ordered_json::array();
    for (const Skew::Point& p : s.skew.curve) curve.push_back({p.rows, p.share});
    json["skew"] = {{"lookups", s.skew.lookups},
                    {"rows", s.skew.rows},
                    {"exact", s.skew.exact},
                    {"share_of_top_60000", s.skew.share_of(kManyRows)},
                    {"curve", curve},
                    {"batch", s.skew.batch},
                    {"distinct_in_batch", s.skew.distinct_in_batch},
                    {"lookups_in_batch", s.skew.lookups_in_batch}};
  }
  return json;
}

}  // namespace hlite::prep
