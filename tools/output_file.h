// OutputFile: a file that appears under its name complete or not at all.
//
// Bytes go to "<path>.tmp"; commit() flushes them to the disk and renames. Without commit() the
// destructor removes the temporary file. A running XXH3 (64 bits) of all bytes is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct XXH3_state_s;

namespace hlite::tools {

class OutputFile {
 public:
  // Throws FileError when the temporary file cannot be created.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throws FileError with path, offset and reason when the system refuses, as on a full disk.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Everything written so far is on the disk afterwards; the file still has its temporary name.
  void sync();
  // sync(), then the rename. Several files of one result: sync() all, then commit() all.
  void commit();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& temporary_path() const { return temporary_; }
  [[nodiscard]] int64_t bytes() const { return written_ + static_cast<int64_t>(pending_.size()); }
  // 16 hexadecimal digits, as `xxhsum -H3` prints them.
  [[nodiscard]] std::string xxh3() const;

 private:
  void flush();
  [[noreturn]] void fail(const char* operation) const;

  std::string path_, temporary_;
  int fd_ = -1;
  int64_t written_ = 0;
  std::vector<char> pending_;
  XXH3_state_s* hash_;
  bool committed_ = false;
};

// Creates the folder and its parents; FileError when that fails.
void make_folder(const std::string& path);

}  // namespace hlite::tools
