#include "data_reader/unknown_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::data {

namespace {

// More than training's share by this much is not chance, nor a day with new items.
constexpr double kSuspicious = 0.25;
constexpr size_t kColumnsShown = 5;

double share(int64_t count, int64_t rows) {
  return rows > 0 ? static_cast<double>(count) / static_cast<double>(rows) : 0.0;
}

struct ColumnShares {
  std::string name;
  double unknown, missing, training_unknown, training_missing;

  [[nodiscard]] double more_unknown() const { return unknown - training_unknown; }
  [[nodiscard]] double more_missing() const { return missing - training_missing; }
};

// "user 100.0 % (0.2 % in training), item ..."
std::string list_of(std::vector<ColumnShares> columns, double ColumnShares::*of_rows,
                    double ColumnShares::*of_training) {
  std::stable_sort(columns.begin(), columns.end(), [&](const auto& a, const auto& b) {
    return a.*of_rows - a.*of_training > b.*of_rows - b.*of_training;
  });
  std::string text;
  for (size_t i = 0; i < std::min(columns.size(), kColumnsShown); ++i)
    text += fmt::format("{}{} {:.1f} % ({:.1f} % in training)", i > 0 ? ", " : "", columns[i].name,
                        100 * columns[i].*of_rows, 100 * columns[i].*of_training);
  if (columns.size() > kColumnsShown)
    text += fmt::format(" and {} more", columns.size() - kColumnsShown);
  return text;
}

}  // namespace

void UnknownValues::add(const UnknownValues& other) {
  rows += other.rows;
  missing.resize(other.missing.size());
  unknown.resize(other.unknown.size());
  for (size_t i = 0; i < missing.size(); ++i) {
    missing[i] += other.missing[i];
    unknown[i] += other.unknown[i];
  }
}

void report_unknown(const UnknownValues& found, const std::string& place,
                    std::span<const ManifestColumn> training, int64_t training_rows, double most,
                    bool summary) {
  if (found.rows == 0 || found.unknown.size() != training.size() || training.empty()) return;
  std::vector<ColumnShares> all, unknown, missing;
  for (size_t i = 0; i < training.size(); ++i) {
    const ColumnShares& c = all.emplace_back(
        ColumnShares{.name = training[i].name,
                     .unknown = share(found.unknown[i], found.rows),
                     .missing = share(found.missing[i], found.rows),
                     .training_unknown = share(training[i].out_of_vocabulary, training_rows),
                     .training_missing = share(training[i].missing, training_rows)});
    if (c.unknown > most)
      raise<DataError>(
          "{}: column {}: expected at most {:.1f} % of values that the training rows did not have "
          "(--max-unknown), found {:.1f} % of {} rows",
          place, c.name, 100 * most, 100 * c.unknown, found.rows);
    if (c.more_unknown() > kSuspicious) unknown.push_back(c);
    if (c.more_missing() > kSuspicious) missing.push_back(c);
  }
  const auto mean = [&](double ColumnShares::*member) {
    double sum = 0;
    for (const ColumnShares& c : all) sum += c.*member;
    return 100 * sum / static_cast<double>(all.size());
  };
  if (summary)
    log::info(
        "{}: of all categories {:.1f} % unknown ({:.1f} % in training), {:.1f} % missing ({:.1f} "
        "%)",
        place, mean(&ColumnShares::unknown), mean(&ColumnShares::training_unknown),
        mean(&ColumnShares::missing), mean(&ColumnShares::training_missing));
  if (!unknown.empty())
    log::warning(
        "{}: many categories are unknown: {}; expected them as the training files wrote them",
        place, list_of(unknown, &ColumnShares::unknown, &ColumnShares::training_unknown));
  if (!missing.empty())
    log::warning("{}: many categories are missing: {}", place,
                 list_of(missing, &ColumnShares::missing, &ColumnShares::training_missing));
}

}  // namespace hlite::data
