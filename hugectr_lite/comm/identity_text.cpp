#include "hugectr_lite/comm/identity_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

namespace hlite::comm {
namespace {

constexpr char kBetween = '\t', kEnd = '\n';
constexpr size_t kMaxNamed = 3, kMaxShown = 100;

std::map<std::string_view, std::string_view> entries_of(std::string_view text) {
  std::map<std::string_view, std::string_view> entries;
  for (size_t end; (end = text.find(kEnd)) != text.npos; text.remove_prefix(end + 1)) {
    const size_t at = text.find(kBetween);
    entries.emplace(text.substr(0, at), text.substr(at + 1, end - at - 1));
  }
  return entries;
}

}  // namespace

std::string text_of(const RunIdentity& identity) {
  std::string text;
  for (const auto& [name, value] : identity) text += name + kBetween + value + kEnd;
  return text;
}

std::string difference(std::string_view mine, std::string_view first_process) {
  const auto here = entries_of(mine), there = entries_of(first_process);
  std::vector<std::string> found;
  const auto name_it = [&](std::string_view name, std::string_view expected,
                           std::string_view value) {
    found.push_back(fmt::format("{}: expected {}, as in process 0, found {}", name,
                                expected.substr(0, kMaxShown), value.substr(0, kMaxShown)));
  };
  for (const auto& [name, value] : here)
    if (const auto other = there.find(name); other == there.end())
      name_it(name, "none", value);
    else if (other->second != value)
      name_it(name, other->second, value);
  for (const auto& [name, value] : there)
    if (!here.contains(name)) name_it(name, value, "none");
  const size_t named = std::min(found.size(), kMaxNamed), more = found.size() - named;
  return fmt::format("{}{}", fmt::join(std::span(found).first(named), "; "),
                     more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace hlite::comm
