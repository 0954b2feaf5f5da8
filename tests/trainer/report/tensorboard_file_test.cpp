#include "hugectr_lite/trainer/report/tensorboard_file.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <map>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::trainer {
namespace {

// CRC-32C by its definition: the remainder of the bits, first the lowest of a byte, modulo the
// Castagnoli polynomial, highest power first.
uint32_t masked_crc(const std::string& bytes) {
  uint32_t remainder = 0xffffffffu;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool in = (static_cast<uint8_t>(c) >> bit & 1) != 0;
      const bool out = remainder >> 31 != 0;
      remainder = remainder << 1 ^ (in != out ? 0x1edc6f41u : 0u);
    }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= (~remainder >> bit & 1u) << (31 - bit);
  return std::rotr(reflected, 15) + 0xa282ead8u;
}

template <typename T>
T value_at(const std::string& bytes, size_t at) {
  T value;
  REQUIRE(at + sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto size = value_at<uint64_t>(file, at);
    CHECK(value_at<uint32_t>(file, at + 8) == masked_crc(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, size));
    CHECK(value_at<uint32_t>(file, at + 12 + size) == masked_crc(records.back()));
    at += 16 + size;
  }
  return records;
}

// The fields of a protocol buffer: numbers as they are, doubles and floats by their bits.
struct Fields {
  std::map<uint64_t, uint64_t> number;
  std::map<uint64_t, std::string> text;
};
Fields fields_of(const std::string& message) {
  Fields fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = value_at<uint8_t>(message, at++);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint(), field = key >> 3;
    switch (key & 7) {
      case 0:
        fields.number[field] = varint();
        break;
      case 1:
        fields.number[field] = value_at<uint64_t>(message, at);
        at += 8;
        break;
      case 5:
        fields.number[field] = value_at<uint32_t>(message, at);
        at += 4;
        break;
      case 2: {
        const uint64_t size = varint();
        fields.text[field] = message.substr(at, size);
        at += size;
        break;
      }
      default:
        FAIL("wire type");
    }
  }
  return fields;
}

std::string only_file_in(const std::string& directory) {
  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    CHECK(name.empty());
    name = entry.path();
  }
  return name;
}

}  // namespace

TEST_CASE("an event file holds the recorded scalars, each at its iteration") {
  const test::TemporaryDirectory directory;
  {
    TensorboardFile file(directory / "new/folder");
    file.train({.iter = 300, .loss = 0.5, .batch_loss = 0.625, .lr = 0.25, .samples_per_s = 1e6});
    file.eval(1234567, {.auc = 0.75, .loss = 0.6, .samples = 10, .seconds = 2});
    file.test(1234568, {.auc = {}, .loss = 0.7, .samples = 10, .more = {{"HitRate@2", 0.5}}});
  }
  const std::string name = only_file_in(directory / "new/folder");
  test::check_contains(name, {"events.out.tfevents."});
  const auto records = records_of(test::read_text(name));
  REQUIRE(records.size() == 14);
  CHECK(fields_of(records[0]).text[3] == "brain.Event:2");
  std::map<std::pair<std::string, uint64_t>, float> got;
  for (size_t i = 1; i < records.size(); ++i) {
    Fields event = fields_of(records[i]);
    CHECK(std::bit_cast<double>(event.number[1]) > 1.7e9);  // seconds since 1970
    Fields point = fields_of(fields_of(event.text[5]).text[1]);
    got[{point.text[1], event.number[2]}] =
        std::bit_cast<float>(static_cast<uint32_t>(point.number[2]));
  }
  const decltype(got) want = {
      {{"train/loss", 300}, 0.5f},          {{"train/batch_loss", 300}, 0.625f},
      {{"train/lr", 300}, 0.25f},           {{"train/samples_per_s", 300}, 1e6f},
      {{"train/wait_share", 300}, 0.0f},    {{"eval/auc", 1234567}, 0.75f},
      {{"eval/loss", 1234567}, 0.6f},       {{"eval/samples", 1234567}, 10.0f},
      {{"eval/seconds", 1234567}, 2.0f},    {{"test/loss", 1234568}, 0.7f},
      {{"test/hit_rate@2", 1234568}, 0.5f}, {{"test/samples", 1234568}, 10.0f},
      {{"test/seconds", 1234568}, 0.0f}};
  CHECK((got == want));
}

TEST_CASE("an event file that cannot be written is an error that names it") {
  const test::TemporaryDirectory directory;
  test::write_text(directory / "file", "");
  test::check_contains(
      test::message_of<FileError>([&] { TensorboardFile file(directory / "file/below"); }),
      {"file/below", "cannot make the folder"});
}

}  // namespace hlite::trainer
