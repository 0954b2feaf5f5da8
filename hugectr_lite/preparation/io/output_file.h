// OutputFile: a file that appears under its name complete or not at all.
//
// Bytes go to a temporary_file(); commit() makes them durable and renames. Without commit() the
// destructor removes the temporary file, unless it is one that a later run goes on with. A running
// XXH3 (64 bits) of all bytes is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::prep {

class OutputFile {
 public:
  // Throws FileError when the temporary file cannot be created.
  explicit OutputFile(const std::string& path);
  // The temporary file is `temporary`, outlives this object and has, after save(), all that was
  // written. The first `kept` bytes of it are there already: repeat() receives all of them, in
  // order, before anything else.
  OutputFile(const std::string& path, const std::string& temporary, int64_t kept);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throws FileError with path, offset and reason when the system refuses, as on a full disk.
  void write(std::span<const std::byte> bytes);
  void repeat(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // All that was written is in the temporary file, for other processes to read.
  void save();
  // Nothing more is written; everything is durable under the temporary name afterwards.
  void finish();
  // finish(), then the rename. Several files of one result: finish() all, then commit() all.
  void commit();
  // finish(), then the rename without waiting until that is durable: after a crash of the system
  // the file may be absent, or still the older one. For results that are quickly made again.
  void publish();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& temporary_path() const { return file_.name(); }
  [[nodiscard]] int64_t bytes() const { return checksum_.sum().bytes; }
  [[nodiscard]] std::string xxh3() const { return checksum_.sum().digits(); }

 private:
  void append(std::span<const std::byte> bytes);
  void flush();

  std::string path_;
  WriteFile file_;
  HostMemory pending_;  // from the first write to finish(); of page-aligned blocks
  size_t pending_bytes_ = 0;
  int64_t first_written_ = 0;  // byte of the file, after those that were kept
  Checksum checksum_;
  bool finished_ = false, keep_ = false;
};

// Creates the folder and its parents; FileError when that fails.
void make_folder(const std::string& path);

}  // namespace hlite::prep
