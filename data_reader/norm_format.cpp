#include "data_reader/norm_format.h"

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::data {
namespace {
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 4, kSumBytes = 1;
// Larger than any real data needs; they keep the bytes of a sample within 31 bits.
constexpr int64_t kMaxValues = int64_t{1} << 24;
constexpr int64_t kMaxListBytes = int64_t{1} << 28;

template <typename T>
void append(std::span<const T> values, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Appends space for a block's length if blocks are framed. Returns where the block begins.
size_t begin_block(bool framed, std::vector<std::byte>& out) {
  if (framed) out.resize(out.size() + kLengthBytes);
  return out.size();
}

// Fills in the length, and appends the checksum.
void end_block(bool framed, size_t begin, std::vector<std::byte>& out) {
  if (!framed) return;
  const auto length = static_cast<int32_t>(out.size() - begin);
  std::memcpy(out.data() + begin - kLengthBytes, &length, kLengthBytes);
  out.push_back(byte_sum({out.data() + begin, out.size() - begin}));
}

int64_t load_int64(std::span<const std::byte> bytes, size_t index) {
  int64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * index, sizeof(value));
  return value;
}

// Returns the text without line ends and blanks around it.
std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}
}  // namespace

std::byte byte_sum(std::span<const std::byte> bytes) {
  uint8_t sum = 0;
  for (const std::byte b : bytes) sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(b));
  return static_cast<std::byte>(sum);
}

void append_norm_header(const NormHeader& header, std::vector<std::byte>& out) {
  const size_t begin = begin_block(header.sum, out);
  const std::array<int64_t, 8> numbers = {header.sum ? 1 : 0,
                                          header.records,
                                          header.label_dim,
                                          header.dense_dim,
                                          header.slots,
                                          0,
                                          0,
                                          0};
  append<int64_t>(numbers, out);
  end_block(header.sum, begin, out);
}

void append_norm_sample(bool framed, std::span<const float> label, std::span<const float> dense,
                        std::span<const int32_t> nnz, std::span<const uint32_t> keys,
                        std::vector<std::byte>& out) {
  const size_t begin = begin_block(framed, out);
  append(label, out);
  append(dense, out);
  size_t used = 0;
  for (const int32_t& n : nnz) {
    HLITE_CHECK(n >= 0 && used + static_cast<size_t>(n) <= keys.size(), "{} keys, {} used, {} more",
                keys.size(), used, n);
    append(std::span(&n, 1), out);
    append(keys.subspan(used, static_cast<size_t>(n)), out);
    used += static_cast<size_t>(n);
  }
  HLITE_CHECK(used == keys.size(), "{} keys, {} used", keys.size(), used);
  end_block(framed, begin, out);
}

NormHeader read_norm_header(const ByteSource& file) {
  const std::string& path = file.name();
  const auto cut_short = [&](int64_t expected) {
    raise<DataError>("{}: expected a Norm header of {} bytes, found a file of {} bytes", path,
                     expected, file.size());
  };
  if (file.size() < NormHeader::kBytes) cut_short(NormHeader::kBytes);
  std::array<std::byte, NormHeader::kBytes + kLengthBytes + kSumBytes> bytes;
  int32_t first = 0;
  file.read(0, {bytes.data(), kLengthBytes});
  std::memcpy(&first, bytes.data(), sizeof(first));

  // A framed header begins with its length, 64; any other with error_check 0.
  NormHeader header;
  header.sum = first == NormHeader::kBytes;
  if (!header.sum && first != 0)
    raise<DataError>(
        "{}: expected a Norm file, which begins with 64 (framed, with checksums) or 0 (without), "
        "found {}",
        path, first);
  if (file.size() < header.framed_bytes()) cut_short(header.framed_bytes());
  file.read(0, {bytes.data(), static_cast<size_t>(header.framed_bytes())});
  const auto payload = std::span(bytes).subspan(header.sum ? kLengthBytes : 0, NormHeader::kBytes);
  if (header.sum) {
    const std::byte expected = byte_sum(payload), found = bytes.back();
    if (expected != found)
      raise<DataError>("{}: header: expected the checksum {} (the sum of its bytes), found {}",
                       path, static_cast<int>(expected), static_cast<int>(found));
  }
  const auto number = [&](size_t index, const char* name, int64_t least, int64_t most) {
    const int64_t value = load_int64(payload, index);
    if (value < least || value > most)
      raise<DataError>("{}: header: expected {} in [{}, {}], found {}", path, name, least, most,
                       value);
    return value;
  };
  const int64_t check = header.sum ? 1 : 0;
  if (const int64_t found = load_int64(payload, 0); found != check)
    raise<DataError>("{}: header: expected error_check {} {} framing, found {}", path, check,
                     header.sum ? "with" : "without", found);
  header.label_dim = number(2, "label_dim", 0, kMaxValues);
  header.dense_dim = number(3, "dense_dim", 0, kMaxValues);
  header.slots = number(4, "slot_num", 0, kMaxValues);
  const int64_t left = file.size() - header.framed_bytes(), least = header.min_sample_bytes();
  header.records = load_int64(payload, 1);
  // A file of any size could hold any number of samples of 0 bytes.
  if (header.records < 0 || least == 0 || header.records > left / least)
    raise<DataError>(
        "{}: header: expected number_of_records in [0, {}], as samples ({} labels, {} dense, {} "
        "slots) take {} bytes at least and {} follow the header, found {}",
        path, least == 0 ? 0 : left / least, header.label_dim, header.dense_dim, header.slots,
        least, left, header.records);
  return header;
}

std::vector<std::string> read_file_list(const std::string& path) {
  const std::string text = read_text(ReadFile(path), kMaxListBytes);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::vector<std::string> files;
  int64_t count = -1, line = 0, count_line = 0;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view entry = trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (entry.empty()) continue;
    if (count >= 0) {
      files.push_back(resolve_path(folder, std::string(entry)));
      continue;
    }
    count = parse_number<int64_t>(entry).value_or(0);
    if (count < 1)
      raise<DataError>(
          "{}:{}: expected the number of files in the list (>= 1), found \"{}\"; a file list has "
          "the number in its first line, then one path a line",
          path, line + 1, entry.substr(0, 60));
    count_line = line + 1;
  }
  if (count < 0) raise<DataError>("{}:1: expected the number of files, found an empty list", path);
  if (static_cast<int64_t>(files.size()) != count)
    raise<DataError>("{}:{}: expected {} paths below, found {}", path, count_line, count,
                     files.size());
  return files;
}

}  // namespace hlite::data
