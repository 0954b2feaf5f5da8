#include "hugectr_lite/preparation/csv/csv_record.h"

#include <algorithm>

#include "hugectr_lite/core/in_quotes.h"

namespace hlite::prep {

void append_csv_field(std::string_view field, std::string& line) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += field;
    return;
  }
  line += '"';
  for (const char c : field) line.append(c == '"' ? 2 : 1, c);
  line += '"';
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_blank_line(std::string_view line) { return trimmed(line).empty() || line == "\r"; }

std::optional<std::string> split_csv(const CsvDialect& dialect, std::string_view line,
                                     CsvFields& out) {
  auto& [fields, unescaped] = out;
  const auto [separator, trim] = dialect;
  fields.clear();
  unescaped.clear();
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  for (;;) {
    size_t begin = 0;
    while (trim && begin < line.size() && (line[begin] == ' ' || line[begin] == '\t') &&
           line[begin] != separator) {
      ++begin;
    }
    size_t end = 0;  // of the field, at a separator or the end of the line
    if (begin < line.size() && line[begin] == '"') {
      std::string& text = unescaped.emplace_back();
      size_t at = begin + 1;
      for (;; ++at) {
        const size_t quote = line.find('"', at);
        if (quote == std::string_view::npos) {
          return fmt::format("column {}: expected a closing quote, found the end of the line in {}",
                             fields.size(), in_quotes(line));
        }
        text += line.substr(at, quote - at);
        at = quote + 1;
        if (at >= line.size() || line[at] != '"') break;
        text += '"';
      }
      end = std::min(line.find(separator, at), line.size());
      if (!trimmed(line.substr(at, end - at)).empty()) {
        return fmt::format("column {}: expected a separator after the closing quote, found {}",
                           fields.size(), in_quotes(line.substr(at, end - at)));
      }
      fields.push_back(text);
    } else {
      end = std::min(line.find(separator), line.size());
      const std::string_view field = line.substr(0, end);
      fields.push_back(trim ? trimmed(field) : field);
    }
    if (end == line.size()) return std::nullopt;
    line.remove_prefix(end + 1);
  }
}

}  // namespace hlite::prep
