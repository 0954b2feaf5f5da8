#include "data_reader/norm_stream.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {
constexpr int64_t kReadBytes = int64_t{4} << 20;  // bytes a read
}  // namespace

NormStream::NormStream(const config::DataConfig& config, const std::string& list,
                       std::span<const int64_t> slot_rows)
    : decoder_(config, slot_rows) {
  for (std::string& path : read_file_list(list)) {
    File file;
    const ReadFile opened(path);
    file.header = read_norm_header(opened);
    file.path = std::move(path);
    file.first_sample = samples_;
    check_header(config, file);
    if (file.header.records == 0) check_end(file, opened.size() - file.header.framed_bytes());
    samples_ += file.header.records;
    files_.push_back(std::move(file));
  }
  if (samples_ == 0)
    raise<DataError>("{}: expected at least one sample, found none in {} files", list,
                     files_.size());
  buffer_.resize(static_cast<size_t>(std::max(kReadBytes, 4 * decoder_.most_record_bytes())));
}

void NormStream::check_header(const config::DataConfig& config, const File& file) const {
  const auto check = [&](const char* name, int64_t found, int64_t expected, const char* key) {
    if (found != expected)
      raise<DataError>("{}: header: expected {} {} (layers[0].{}), found {}", file.path, name,
                       expected, key, found);
  };
  const NormHeader& h = file.header;
  if (h.sum != (config.check == "Sum"))
    raise<DataError>(
        "{}: header: expected {}, as layers[0].check is \"{}\", found {} (error_check {})",
        file.path, h.sum ? "no checksums" : "checksums", config.check, h.sum ? "some" : "none",
        h.sum ? 1 : 0);
  check("label_dim", h.label_dim, config.label_dim, "label.label_dim");
  check("dense_dim", h.dense_dim, config.dense_dim, "dense.dense_dim");
  check("slot_num", h.slots, config.key_layout().slots(), "sparse");
}

void NormStream::check_end(const File& file, int64_t behind) {
  if (behind > 0)
    raise<DataError>(
        "{}: expected the end of the file after the {} records of its header, found {} bytes more",
        file.path, file.header.records, behind);
}

NormPlace NormStream::place() const { return {files_[current_].path, record_, record_byte_}; }

void NormStream::open_current() {
  if (file_ != nullptr) return;
  // The last one whose first sample is at or before the position: files without records come first.
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), position_,
                       [](int64_t sample, const File& f) { return sample < f.first_sample; });
  current_ = static_cast<size_t>(after - files_.begin()) - 1;
  const File& now = files_[current_];
  file_ = std::make_unique<ReadFile>(now.path);
  const NormHeader header = read_norm_header(*file_);
  if (header.sum != now.header.sum || header.records != now.header.records ||
      header.label_dim != now.header.label_dim || header.dense_dim != now.header.dense_dim ||
      header.slots != now.header.slots)
    raise<DataError>("{}: expected the header that the file had at first, found another", now.path);
  record_ = 0;
  record_byte_ = read_until_ = header.framed_bytes();
  begin_ = end_ = 0;
}

std::span<const std::byte> NormStream::window() {
  const int64_t left = file_->size() - read_until_;
  if (static_cast<int64_t>(end_ - begin_) < decoder_.most_record_bytes() && left > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const size_t n = std::min(buffer_.size() - end_, static_cast<size_t>(left));
    file_->read(read_until_, {buffer_.data() + end_, n});
    end_ += n;
    read_until_ += static_cast<int64_t>(n);
    bytes_read_ += static_cast<int64_t>(n);
    file_->will_need(read_until_, std::min(kReadBytes, file_->size() - read_until_));
  }
  return {buffer_.data() + begin_, end_ - begin_};
}

void NormStream::passed(int64_t bytes) {
  begin_ += static_cast<size_t>(bytes);
  record_byte_ += bytes;
  ++record_;
  ++position_;
  const NormHeader& header = files_[current_].header;
  if (record_ < header.records) return;
  check_end(files_[current_], file_->size() - record_byte_);
  file_.reset();
}

bool NormStream::seek(int64_t sample, const std::atomic<bool>* stop) {
  HLITE_CHECK(sample >= 0 && sample <= samples_, "sample {} of {}", sample, samples_);
  if (file_ != nullptr) {
    const File& now = files_[current_];
    if (sample < position_ || sample >= now.first_sample + now.header.records) file_.reset();
  }
  if (file_ == nullptr) {
    position_ = sample;
    if (sample == samples_) return true;
    open_current();
    position_ = files_[current_].first_sample;
  }
  while (position_ < sample) {
    if (stop != nullptr && *stop) return false;
    passed(decoder_.skip(window(), place()));
  }
  return true;
}

void NormStream::decode(int64_t count, HostBatch& batch, int64_t row) {
  HLITE_CHECK(count <= samples_ - position_, "{} samples from {} on, of {}", count, position_,
              samples_);
  for (int64_t i = 0; i < count; ++i) {
    open_current();
    passed(decoder_.decode(window(), place(), batch, row + i));
  }
}

}  // namespace hlite::data
