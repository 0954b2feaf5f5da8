#include "hugectr_lite/checkpoint/manifest_sum.h"

#include <algorithm>

#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/error.h"

namespace hlite::checkpoint {
namespace {

std::string sum_of(const std::string& text) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span<const char>(text)));
  return checksum.sum().digits();
}

std::string without_layout(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\' && i + 1 < text.size()) {
      out += text[i];
      out += text[++i];  // a quote here ends no string
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    if (in_string || (text[i] != ' ' && text[i] != '\n')) out += text[i];
  }
  return out;
}

}  // namespace

std::string with_sum(nlohmann::ordered_json manifest) {
  manifest["xxh3_64"] = sum_of(manifest.dump());
  return manifest.dump(2) + "\n";
}

void check_sum(const std::string& text, const std::string& expected, const std::string& name) {
  std::string summed = without_layout(text);
  const std::string end = fmt::format(R"(,"xxh3_64":"{}"}})", expected);
  if (!summed.ends_with(end))
    raise<DataError>("{}: it is damaged: expected its checksum last, found ...{}", name,
                     summed.substr(summed.size() - std::min(summed.size(), end.size())));
  summed.replace(summed.size() - end.size(), end.size(), "}");
  if (const std::string found = sum_of(summed); found != expected)
    raise<DataError>("{}: it is damaged: expected checksum {}, found {}", name, expected, found);
}

}  // namespace hlite::checkpoint
