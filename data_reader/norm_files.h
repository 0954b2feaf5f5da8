// Norm files (norm_format.h), one after the other, as one sequence of records that is read from
// front to back in large blocks. What is in a record is the caller's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/norm_format.h"
#include "data_reader/record_issue.h"
#include "hugectr_lite/core/file.h"

namespace hlite::data {

class NormFiles {
 public:
  using CheckHeader = std::function<void(const std::string& path, const NormHeader&)>;
  // Opens every file once. Throws DataError when one cannot be read or is no Norm file, and
  // whatever `check` throws.
  NormFiles(std::vector<std::string> paths, const CheckHeader& check);

  // Records of all files, as their headers say.
  [[nodiscard]] int64_t records() const { return records_; }
  // The record that next() gives.
  [[nodiscard]] int64_t position() const { return position_; }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] size_t count() const { return files_.size(); }
  [[nodiscard]] const NormHeader& first_header() const { return files_.front().header; }

  struct Record {
    std::span<const std::byte> bytes;  // from its first one on
    RecordPlace place;
  };
  // The record at position(), with the `most` bytes from there on or all that are left of its file;
  // valid until the next call. REQUIRES position() < records().
  Record next(int64_t most);
  // Moves past it; it has that many bytes. Throws DataError when a file continues after its last
  // record.
  void passed(int64_t bytes);
  // Moves to `record`, in [0, records()], or to one before it in the same file, from which passed()
  // leads there: the present one if that is possible, else the file's first.
  void approach(int64_t record);

 private:
  struct File {
    std::string path;
    NormHeader header;
    int64_t first_record = 0;
  };
  static void check_end(const File& file, int64_t trailing_bytes);
  // Opens the file that holds record position_ if it is not open.
  void open_current();

  std::vector<File> files_;
  int64_t records_ = 0, position_ = 0, bytes_read_ = 0;

  // The open file; position_ is in it.
  size_t current_ = 0;
  std::unique_ptr<ReadFile> file_;
  int64_t record_ = 0, record_byte_ = 0;  // of the next record
  int64_t read_until_ = 0;                // bytes of the file in or before the buffer
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is not yet passed
};

}  // namespace hlite::data
