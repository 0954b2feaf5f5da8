#include "hugectr_lite/config/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hugectr_lite/core/parse_number.h"

namespace hlite::config {
namespace {

// The line that a message "<file>:<line>: ..." names.
int64_t line_of(const std::string& message) {
  if (message.starts_with("--set ")) return 0;
  const std::string_view where = std::string_view(message).substr(0, message.find(": "));
  const auto line = parse_number<int64_t>(where.substr(where.rfind(':') + 1));
  return line.value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace

void Problems::add(const JsonNode& node, std::string_view message) {
  collect([&] { fail_at(node, message); });
}

void Problems::add_lines(std::string_view text) {
  while (true) {
    const size_t end = text.find('\n');
    const std::string line(text.substr(0, end));
    if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(line);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void Problems::raise() const {
  if (empty()) return;
  std::vector<std::string> sorted = lines_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
    return line_of(a) < line_of(b);
  });
  throw ConfigError(fmt::format("{}", fmt::join(sorted, "\n")));
}

}  // namespace hlite::config
