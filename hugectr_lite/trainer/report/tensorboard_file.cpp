#include "hugectr_lite/trainer/report/tensorboard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file_lock.h"
#include "hugectr_lite/core/output_place.h"

namespace hlite::trainer {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// CRC-32C (Castagnoli, reflected), masked as TFRecord wants it.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
  }
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

template <typename T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Fields of a protocol buffer, each with its number and wire type in front.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
  return bytes + static_cast<char>(value);
}
std::string tag(uint32_t field, WireType type) { return varint(field << 3 | type); }
std::string message(uint32_t field, std::string_view content) {
  return tag(field, kLength) + varint(content.size()) + std::string(content);
}
std::string event(int64_t step, std::string_view content) {
  return tag(1, kFixed64) + bytes_of(now_seconds()) + tag(2, kVarint) +
         varint(static_cast<uint64_t>(step)) + std::string(content);
}

}  // namespace

TensorboardFile::TensorboardFile(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) raise<FileError>("{}: cannot make the folder: {}", directory, error.message());
  path_ = fmt::format("{}/events.out.tfevents.{:.0f}.{}.{}", directory, now_seconds(), host_name(),
                      getpid());
  FileDescriptor fd = open_output(path_, O_WRONLY | O_CREAT | O_TRUNC);
  if (fd.get() >= 0) file_.reset(fdopen(fd.release(), "wb"));
  if (!file_) raise<FileError>("{}: cannot write it: {}", path_, std::strerror(errno));
  record(event(0, message(3, "brain.Event:2")));
}

void TensorboardFile::record(std::string_view event) {
  const std::string length = bytes_of(static_cast<uint64_t>(event.size()));
  const std::string bytes =
      length + bytes_of(masked_crc(length)) + std::string(event) + bytes_of(masked_crc(event));
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
      std::fflush(file_.get()) != 0)
    raise<FileError>("{}: cannot write it: {}", path_, std::strerror(errno));
}

void TensorboardFile::scalar(std::string_view name, int64_t step, double value) {
  const std::string point =
      message(1, name) + tag(2, kFixed32) + bytes_of(static_cast<float>(value));
  record(event(step, message(5, message(1, point))));
}

void TensorboardFile::scalars(const std::string& prefix, int64_t step,
                              const std::vector<NamedNumber>& numbers) {
  for (const auto& [name, value] : numbers)
    if (value && std::isfinite(*value)) scalar(prefix + name, step, *value);
}

void TensorboardFile::evaluation(const std::string& prefix, int64_t iter, const EvalResult& e) {
  scalars(prefix, iter, numbers_of(e));
  for (size_t t = 0; t < e.tasks.size(); ++t)
    scalars(fmt::format("{}tasks/{}/", prefix, t), iter, numbers_of(e.tasks[t]));
}

}  // namespace hlite::trainer
