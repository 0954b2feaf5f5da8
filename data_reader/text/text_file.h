// TextFile: a file of lines that is read in pieces of so many lines, in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/core/file.h"

namespace hlite::data {

class TextFile {
 public:
  // Reads the file up to the end of line number `most`, to find where pieces begin; a last line
  // may lack its line feed. Throws FileError; DataError if there is no line, or if the file is
  // compressed.
  TextFile(const std::string& path, int64_t lines_of_piece, int64_t most);

  [[nodiscard]] const std::string& path() const { return file_.name(); }
  [[nodiscard]] int64_t lines() const { return lines_; }
  // The lines [piece * lines_of_piece, ...), each with its line feed. Safe to call from several
  // threads. Throws FileError.
  void read(int64_t piece, std::string& text) const;

 private:
  const ReadFile file_;
  int64_t lines_ = 0;
  std::vector<int64_t> begins_;  // [pieces + 1] in bytes
};

}  // namespace hlite::data
