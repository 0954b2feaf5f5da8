#include "hugectr_lite/preparation/io/output_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/output_place.h"

namespace hlite::prep {

static constexpr size_t kBufferBytes = size_t{4} << 20;

OutputFile::OutputFile(const std::string& path) : path_(path), file_(temporary_file(path)) {}

OutputFile::OutputFile(const std::string& path, const std::string& temporary, int64_t kept)
    : path_(path),
      file_(temporary, kept),
      first_written_(kept - kept % static_cast<int64_t>(WriteFile::kDirectAlign)),
      keep_(true) {}

OutputFile::~OutputFile() {
  if (!keep_) ::unlink(temporary_path().c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  append(bytes);
}

void OutputFile::repeat(std::span<const std::byte> bytes) {
  const int64_t begin = this->bytes();
  checksum_.add(bytes);
  // The last ones are written again, for writes at multiples of a block.
  const auto left_out = std::clamp<int64_t>(first_written_ - begin, 0, std::ssize(bytes));
  append(bytes.subspan(static_cast<size_t>(left_out)));
}

void OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (pending_.size() == 0) pending_ = HostMemory(kBufferBytes, "a file's buffer");
    const size_t part = std::min(bytes.size(), kBufferBytes - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), part);
    pending_bytes_ += part;
    bytes = bytes.subspan(part);
    if (pending_bytes_ == kBufferBytes) flush();
  }
}

void OutputFile::save() {
  if (pending_bytes_ > 0) file_.write_ahead(std::span(pending_.data(), pending_bytes_));
}

void OutputFile::flush() {
  file_.write(std::span(pending_.data(), pending_bytes_));
  pending_bytes_ = 0;
}

void OutputFile::finish() {
  if (finished_) return;
  flush();
  pending_ = {};
  file_.close();
  finished_ = true;
}

void OutputFile::commit() {
  finish();
  replace_path(temporary_path(), path_);
  keep_ = true;
}

void OutputFile::publish() {
  finish();
  rename_path(temporary_path(), path_);
  keep_ = true;
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) raise<FileError>("{}: cannot create the folder: {}", path, error.message());
}

}  // namespace hlite::prep
