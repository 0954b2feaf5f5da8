#include "hugectr_lite/trainer/report/event_numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "hugectr_lite/trainer/report/line_file.h"

namespace hlite::trainer {

std::vector<NamedNumber> numbers_of(const TrainEvent& e) {
  std::vector<NamedNumber> numbers = {{"loss", e.loss},
                                      {"batch_loss", e.batch_loss},
                                      {"lr", e.lr},
                                      {"samples_per_s", e.samples_per_s},
                                      {"wait_share", e.wait_share}};
  if (e.replaced_share) numbers.push_back({"replaced_share", e.replaced_share});
  if (e.resident_share) numbers.push_back({"resident_share", e.resident_share});
  return numbers;
}

std::vector<NamedNumber> numbers_of(const LayerTiers& tiers, const embedding::RowCacheCounts& moved,
                                    int64_t iterations) {
  const auto each = [&](int64_t n) {
    return static_cast<double>(n) / static_cast<double>(std::max<int64_t>(1, iterations));
  };
  std::vector<NamedNumber> numbers = {{"rows", static_cast<double>(tiers.rows)},
                                      {"resident_rows", static_cast<double>(tiers.resident)},
                                      {"row_bytes", static_cast<double>(tiers.row_bytes)},
                                      {"resident_share", moved.resident_share()},
                                      {"read_rows", each(moved.fetched)},
                                      {"written_rows", each(moved.written)},
                                      {"read_bytes", each(moved.read_bytes)},
                                      {"written_bytes", each(moved.written_bytes)}};
  if (!tiers.forecast) return numbers;
  const auto& f = *tiers.forecast;
  numbers.insert(numbers.end(), {{"expected_resident_share", f.rows.resident_share()},
                                 {"expected_read_bytes", f.read_bytes},
                                 {"expected_written_bytes", f.written_bytes}});
  return numbers;
}

std::vector<NamedNumber> numbers_of(const embedding::VocabularyCounts& n) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  return {{"rows", number(n.rows)},           {"candidates", number(n.candidates)},
          {"inserted", number(n.inserted)},   {"expired", number(n.expired)},
          {"rare", number(n.rare)},           {"small", number(n.small)},
          {"displaced", number(n.displaced)}, {"refused", number(n.refused)}};
}

std::string member_name(const std::string& metric) {
  std::string name;
  for (size_t i = 0; i < metric.size(); ++i) {
    const auto c = static_cast<unsigned char>(metric[i]);
    if (i > 0 && std::isupper(c) != 0 && std::islower(metric[i - 1]) != 0) name += '_';
    name += static_cast<char>(std::tolower(c));
  }
  return name;
}

std::vector<NamedNumber> numbers_of(const EvalResult& e) {
  std::vector<NamedNumber> numbers = {{"auc", e.auc}, {"loss", e.loss}};
  for (const auto& [name, value] : e.more) numbers.push_back({member_name(name), value});
  numbers.push_back({"samples", static_cast<double>(e.samples)});
  numbers.push_back({"seconds", e.seconds});
  if (e.replaced_share) numbers.push_back({"replaced_share", e.replaced_share});
  return numbers;
}

std::vector<NamedNumber> numbers_of(const TaskResult& t) {
  std::vector<NamedNumber> numbers = {{"auc", t.auc}, {"loss", t.loss}};
  for (const auto& [name, value] : t.more) numbers.push_back({member_name(name), value});
  numbers.push_back({"samples", static_cast<double>(t.samples)});
  return numbers;
}

std::string json_members(const std::vector<NamedNumber>& numbers) {
  std::string text;
  for (const auto& [name, value] : numbers)
    text += fmt::format(R"({}"{}":{})", text.empty() ? "" : ",", name, json_number(value));
  return text;
}

}  // namespace hlite::trainer
