#include "tools/apply/saved_ids.h"

#include <span>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/error.h"
#include "tools/csv/csv_rows.h"
#include "tools/io/input_file.h"
#include "tools/io/mix.h"
#include "tools/io/numpy_file.h"

namespace hlite::tools {

namespace {
constexpr size_t kReadAtOnce = 1 << 20;
constexpr int64_t kKeysAtOnce = 1 << 16;

// A line of a vocabulary to the category: csv_vocabulary.h.
std::string unescaped(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    text += !escape ? line[i] : line[++i] == 'r' ? '\r' : line[i];
  }
  return text;
}

void check_sum(const std::string& path, const Checksum& found, const std::string& expected) {
  if (const std::string sum = found.sum().digits(); sum != expected)
    raise<DataError>("{}: expected the checksum of manifest.json, {}, found {}", path, expected,
                     sum);
}
}  // namespace

SavedIds::SavedIds(const std::string& folder, const config::JsonNode& feature, int64_t rows,
                   bool has_other)
    : known_(std::make_unique<Vocabulary>()),
      first_(has_other ? 1 : 0),
      unknown_(has_other ? 0 : static_cast<uint32_t>(rows)) {
  config::ObjectReader reader(feature);
  const std::string path = folder + "/" + reader.string("vocabulary");
  const std::string sum = reader.string("xxh3");
  path.ends_with(".npy") ? read_keys(path, sum) : read_texts(path, sum);
  if (const int64_t found = known_->ids.size() + first_; found != rows)
    raise<DataError>(
        "{}: expected the categories of {} ids as manifest.json says, found those of {}", path,
        rows, found);
}

uint32_t SavedIds::id_of(uint64_t key) const {
  if (hash_range_ > 0) return key == 0 ? 0 : static_cast<uint32_t>(mix(key) % hash_range_);
  const int64_t found = known_->ids.find(key);
  return found < 0 ? unknown_ : static_cast<uint32_t>(found) + first_;
}

void SavedIds::add(uint64_t key) {
  uint32_t id = 0;
  known_->ids.number(&key, 1, &id);
}

void SavedIds::read_texts(const std::string& path, const std::string& expected_sum) {
  InputFile file(path);
  LineBlock block;
  Checksum sum;
  while (file.next(block, kReadAtOnce)) {
    sum.add(std::as_bytes(std::span(block.text())));
    block.for_each_line([&](std::string_view line, int64_t) { add(token_key(unescaped(line))); });
  }
  check_sum(path, sum, expected_sum);
}

void SavedIds::read_keys(const std::string& path, const std::string& expected_sum) {
  const ReadFile file(path);
  const NumpyHeader header = read_numpy_header(file);
  if (header.type != "<u4" || header.shape.size() != 1 || header.shape[0] < first_)
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
    for (size_t i = at == 0 ? first_ : 0; i < keys.size(); ++i) add(keys[i]);
  }
  check_sum(path, sum, expected_sum);
}

}  // namespace hlite::tools
