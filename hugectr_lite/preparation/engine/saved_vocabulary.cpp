#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <span>
#include <vector>

#include "data_reader/text/line_parser.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/input_file.h"
#include "hugectr_lite/preparation/io/numpy_file.h"

namespace hlite::prep {

uint64_t token_key(std::string_view token) {
  const uint64_t hash = XXH3_64bits(token.data(), token.size());
  return hash == 0 || hash == data::kAbsentKey ? 1 : hash;
}

std::string category_of_line(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    const char c = escape ? line[++i] : line[i];
    text += !escape ? c : c == 'r' ? '\r' : c == 'n' ? '\n' : c;
  }
  return text;
}

namespace {
constexpr size_t kReadAtOnce = 1 << 20;
constexpr int64_t kKeysAtOnce = 1 << 16;

using Visit = std::function<void(uint64_t key)>;

void check_sum(const std::string& path, const Checksum& found, const std::string& expected) {
  if (const std::string sum = found.sum().digits(); sum != expected)
    raise<DataError>("{}: expected the checksum of manifest.json, {}, found {}", path, expected,
                     sum);
}
void read_texts(const std::string& path, const std::string& expected_sum, const Visit& visit) {
  InputFile file(path);
  LineBlock block;
  Checksum sum;
  while (file.next(block, kReadAtOnce)) {
    sum.add(std::as_bytes(std::span(block.text())));
    block.for_each_row([&](std::string_view line, int64_t) {
      visit(token_key(category_of_line(line)));
      return true;
    });
  }
  check_sum(path, sum, expected_sum);
}

void read_keys(const std::string& path, const std::string& expected_sum, uint32_t skipped,
               const Visit& visit) {
  const ReadFile file(path);
  const NumpyHeader header = read_numpy_header(file);
  if (header.type != "<u4" || header.shape.size() != 1 || header.shape[0] < skipped)
    raise<DataError>("{}: expected a list of 32-bit keys (\"<u4\"), found \"{}\" in {} dimensions",
                     path, header.type, header.shape.size());
  Checksum sum;
  std::vector<std::byte> preamble(static_cast<size_t>(header.data_offset));
  file.read(0, preamble);
  sum.add(preamble);
  std::vector<uint32_t> keys;
  for (int64_t at = 0; at < header.shape[0]; at += kKeysAtOnce) {
    keys.resize(static_cast<size_t>(std::min(kKeysAtOnce, header.shape[0] - at)));
    const auto bytes = std::as_writable_bytes(std::span(keys));
    file.read(header.data_offset + 4 * at, bytes);
    sum.add(bytes);
    for (size_t i = at == 0 ? skipped : 0; i < keys.size(); ++i) visit(keys[i]);
  }
  check_sum(path, sum, expected_sum);
}

}  // namespace

void read_vocabulary(const std::string& folder, const config::JsonNode& feature, uint32_t skipped,
                     const Visit& visit) {
  const std::string path = folder + "/" + config::to_string(config::member(feature, "vocabulary"));
  const std::string sum = config::to_string(config::member(feature, "xxh3"));
  path.ends_with(".npy") ? read_keys(path, sum, skipped, visit) : read_texts(path, sum, visit);
}

}  // namespace hlite::prep
