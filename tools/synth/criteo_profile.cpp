#include "tools/synth/criteo_profile.h"

#include <cmath>
#include <map>
#include <ranges>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"
#include "tools/io/in_quotes.h"
#include "tools/io/input_file.h"

namespace hlite::tools {
namespace {

// clang-format off
const CriteoProfile kCriteo = {
  {{
      // missing, negative, zero, {min, p01, p10, p25, p50, p75, p90, p99, max}, mean log(1 + x)
      {0.4579, 0.0, 0.2295, {0, 0, 0, 0, 1, 3, 9, 37, 428}, 0.873},
      {0.0, 0.1047, 0.1719, {-2, -1, -1, 0, 3, 35, 182, 2150, 8860}, 2.086},
      {0.2149, 0.0, 0.0028, {0, 1, 1, 2, 6, 18, 44, 212, 65535}, 2.157},
      {0.2197, 0.0, 0.041, {0, 0, 1, 2, 4, 10, 18, 40, 384}, 1.706},
      {0.0266, 0.0, 0.0177, {0, 0, 11, 344, 2813, 10218, 34839, 359455, 1688654}, 7.307},
      {0.2271, 0.0, 0.0507, {0, 0, 2, 8, 32, 101, 269, 1273, 16453}, 3.395},
      {0.0436, 0.0, 0.2194, {0, 0, 0, 1, 3, 11, 34, 213, 3390}, 1.627},
      {0.0004, 0.0, 0.1164, {0, 0, 0, 2, 7, 19, 34, 48, 677}, 2.038},
      {0.0436, 0.0, 0.0298, {0, 0, 2, 10, 38, 108, 260, 954, 8564}, 3.536},
      {0.4579, 0.0, 0.2589, {0, 0, 0, 0, 1, 1, 1, 3, 7}, 0.399},
      {0.0436, 0.0, 0.2269, {0, 0, 0, 1, 1, 3, 6, 26, 101}, 0.928},
      {0.7676, 0.0, 0.1725, {0, 0, 0, 0, 0, 1, 2, 18, 133}, 0.287},
      {0.2197, 0.0, 0.0485, {0, 0, 1, 2, 4, 10, 20, 48, 882}, 1.732},
  }},
  {{
      // cardinality, missing, distinct, {top 1, top 10, top 100}
      {1460, 0.0, 175, {0.5005, 0.9109, 0.9925}},
      {583, 0.0, 386, {0.1235, 0.4324, 0.87}},
      {10131227, 0.0336, 5520, {0.047, 0.1852, 0.3149}},
      {2202608, 0.0336, 4032, {0.073, 0.2452, 0.4111}},
      {305, 0.0, 56, {0.6656, 0.9802, 1.0}},
      {24, 0.1233, 7, {0.4593, 0.8668, 0.8668}},
      {12517, 0.0, 3184, {0.0105, 0.0727, 0.2897}},
      {633, 0.0, 93, {0.5888, 0.9571, 1.0}},
      {3, 0.0, 3, {0.8871, 1.0, 1.0}},
      {93145, 0.0, 2986, {0.2757, 0.3379, 0.4834}},
      {5683, 0.0, 2084, {0.0203, 0.1103, 0.3801}},
      {8351593, 0.0336, 5283, {0.047, 0.1883, 0.3325}},
      {3194, 0.0, 1725, {0.0221, 0.1312, 0.4305}},
      {27, 0.0, 24, {0.3629, 0.9885, 1.0}},
      {14992, 0.0, 2035, {0.0195, 0.1096, 0.4279}},
      {5461306, 0.0336, 4723, {0.047, 0.189, 0.3636}},
      {10, 0.0, 9, {0.4304, 1.0, 1.0}},
      {5652, 0.0, 1149, {0.051, 0.2187, 0.6427}},
      {2173, 0.4402, 546, {0.331, 0.3974, 0.4832}},
      {4, 0.4402, 3, {0.199, 0.5504, 0.5504}},
      {7046547, 0.0336, 5036, {0.047, 0.189, 0.3486}},
      {18, 0.7653, 7, {0.0956, 0.1818, 0.1818}},
      {15, 0.0, 12, {0.4515, 0.9931, 1.0}},
      {286181, 0.0336, 2524, {0.0755, 0.3774, 0.5778}},
      {105, 0.4402, 39, {0.1807, 0.4993, 0.5504}},
      {142572, 0.4402, 1938, {0.0454, 0.1503, 0.2781}},
  }},
};
// clang-format on

// A TSV file with a header, cell by cell.
class ProfileTable {
 public:
  ProfileTable(const std::string& path, int rows) : path_(path) {
    InputFile file(path);
    LineBlock block;
    while (file.next(block, size_t{1} << 20))
      block.for_each_line([&](std::string_view line, int64_t) {
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        std::vector<std::string>& cells = lines_.emplace_back();
        for (const auto cell : std::views::split(line, '\t'))
          cells.emplace_back(cell.begin(), cell.end());
      });
    if (lines_.size() != static_cast<size_t>(rows) + 1) {
      raise<DataError>("{}: expected a header and {} lines, found {} lines", path, rows,
                       lines_.size());
    }
    for (size_t i = 0; i < lines_[0].size(); ++i) column_[lines_[0][i]] = i;
  }

  // `row` from 0, the header not counted.
  [[nodiscard]] double number(int row, const char* column) const {
    const auto found = column_.find(column);
    if (found == column_.end()) raise<DataError>("{}:1: no column \"{}\"", path_, column);
    const auto& cells = lines_[static_cast<size_t>(row) + 1];
    const std::string cell = found->second < cells.size() ? cells[found->second] : "";
    const auto value = parse_number<double>(cell);
    if (!value || !std::isfinite(*value)) {
      raise<DataError>("{}:{}: {}: expected a number, found {}", path_, row + 2, column,
                       in_quotes(cell));
    }
    return *value;
  }
  [[nodiscard]] double share(int row, const char* column) const {
    const double value = number(row, column);
    if (value < 0 || value > 1) {
      raise<DataError>("{}:{}: {}: expected a share from 0 to 1, found {}", path_, row + 2, column,
                       value);
    }
    return value;
  }
  [[nodiscard]] int64_t integer(int row, const char* column, double least) const {
    const double value = number(row, column);
    if (value != std::floor(value) || value < least || value > INT32_MAX) {
      raise<DataError>("{}:{}: {}: expected a whole number of at least {}, found {}", path_,
                       row + 2, column, least, value);
    }
    return static_cast<int64_t>(value);
  }

 private:
  std::string path_;
  std::vector<std::vector<std::string>> lines_;
  std::map<std::string, size_t> column_;
};

}  // namespace

double CriteoProfile::missing_in_token_rows(int slot) const {
  const double random_rows = tokens[static_cast<size_t>(slot)].missing;
  for (const TokenProfile& t : tokens)
    if (t.missing == random_rows && t.missing > 0 && t.distinct <= 100) return 1 - t.top_share[2];
  return random_rows;
}

const CriteoProfile& criteo_profile() { return kCriteo; }

CriteoProfile read_profile(const std::string& folder) {
  CriteoProfile profile;
  const ProfileTable dense(folder + "/dense_columns.tsv", criteo::kDense);
  static constexpr const char* kQuantileNames[] = {"min", "p01", "p10", "p25", "p50",
                                                   "p75", "p90", "p99", "max"};
  for (int k = 0; k < criteo::kDense; ++k) {
    IntegerProfile& column = profile.integers[static_cast<size_t>(k)];
    column.missing = dense.share(k, "missing_rate");
    column.negative = dense.share(k, "negative_rate");
    column.zero = dense.share(k, "zero_rate");
    column.mean_log1p = dense.number(k, "mean_log1p");
    double least = INT32_MIN + 1.0;  // quantiles do not fall
    for (size_t q = 0; q < column.quantile.size(); ++q) {
      column.quantile[q] = static_cast<int32_t>(dense.integer(k, kQuantileNames[q], least));
      least = column.quantile[q];
    }
  }
  const ProfileTable tokens(folder + "/categorical_columns.tsv", criteo::kSlots);
  static constexpr const char* kTopNames[] = {"top1_share_10000", "top10_share_10000",
                                              "top100_share_10000"};
  for (int s = 0; s < criteo::kSlots; ++s) {
    TokenProfile& column = profile.tokens[static_cast<size_t>(s)];
    column.cardinality = tokens.integer(s, "full_kaggle_cardinality", 1);
    column.missing = tokens.share(s, "missing_rate_4584");
    column.distinct = tokens.integer(s, "distinct_in_10000", 1);
    for (int i = 0; i < 3; ++i) column.top_share[i] = tokens.share(s, kTopNames[i]);
  }
  return profile;
}

}  // namespace hlite::tools
