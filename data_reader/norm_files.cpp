#include "data_reader/norm_files.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {
constexpr int64_t kReadBytes = int64_t{4} << 20;  // bytes a read
}  // namespace

NormFiles::NormFiles(std::vector<std::string> paths, const CheckHeader& check) {
  HLITE_CHECK(!paths.empty(), "no files");
  for (std::string& path : paths) {
    File file;
    const ReadFile opened(path);
    file.header = read_norm_header(opened);
    file.path = std::move(path);
    file.first_record = records_;
    check(file.path, file.header);
    if (file.header.records == 0) check_end(file, opened.size() - file.header.framed_bytes());
    records_ += file.header.records;
    files_.push_back(std::move(file));
  }
}

void NormFiles::check_end(const File& file, int64_t trailing) {
  if (trailing > 0)
    raise<DataError>(
        "{}: expected the end of the file after the {} records of its header, found {} bytes more",
        file.path, file.header.records, trailing);
}

void NormFiles::open_current() {
  if (file_ != nullptr) return;
  // The last one whose first record is at or before the position: files without records come first.
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), position_,
                       [](int64_t record, const File& f) { return record < f.first_record; });
  current_ = static_cast<size_t>(after - files_.begin()) - 1;
  const File& now = files_[current_];
  file_ = std::make_unique<ReadFile>(now.path);
  if (read_norm_header(*file_) != now.header)
    raise<DataError>("{}: expected the header that the file had at first, found another", now.path);
  record_ = 0;
  record_byte_ = read_until_ = now.header.framed_bytes();
  begin_ = end_ = 0;
}

NormFiles::Record NormFiles::next(int64_t most) {
  open_current();
  const int64_t left = file_->size() - read_until_;
  if (static_cast<int64_t>(end_ - begin_) < most && left > 0) {
    if (end_ > begin_) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const int64_t size = std::max(kReadBytes, std::min(4 * most, file_->size()));
    buffer_.resize(std::max(buffer_.size(), static_cast<size_t>(size)));
    const size_t n = std::min(buffer_.size() - end_, static_cast<size_t>(left));
    file_->read(read_until_, {buffer_.data() + end_, n});
    end_ += n;
    read_until_ += static_cast<int64_t>(n);
    bytes_read_ += static_cast<int64_t>(n);
    file_->will_need(read_until_, std::min(kReadBytes, file_->size() - read_until_));
  }
  return {{buffer_.data() + begin_, end_ - begin_}, {files_[current_].path, record_, record_byte_}};
}

void NormFiles::passed(int64_t bytes) {
  begin_ += static_cast<size_t>(bytes);
  record_byte_ += bytes;
  ++record_;
  ++position_;
  const NormHeader& header = files_[current_].header;
  if (record_ < header.records) return;
  check_end(files_[current_], file_->size() - record_byte_);
  file_.reset();
}

void NormFiles::approach(int64_t record) {
  HLITE_CHECK(record >= 0 && record <= records_, "record {} of {}", record, records_);
  if (file_ != nullptr) {
    const File& now = files_[current_];
    if (record < position_ || record >= now.first_record + now.header.records) file_.reset();
  }
  if (file_ != nullptr) return;
  position_ = record;
  if (record == records_) return;
  open_current();
  position_ = files_[current_].first_record;
}

}  // namespace hlite::data
