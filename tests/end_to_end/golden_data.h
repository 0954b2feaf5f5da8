// The golden runs, unpacked.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

inline void unpack_gzip(const std::string& from, const std::string& to) {
  gzFile in = gzopen(from.c_str(), "rb");
  if (!in) throw std::runtime_error("cannot read " + from);
  std::string text;
  std::vector<char> piece(1 << 20);
  int n = 0;
  while ((n = gzread(in, piece.data(), static_cast<unsigned>(piece.size()))) > 0)
    text.append(piece.data(), static_cast<size_t>(n));
  const bool ok = n == 0 && gzclose(in) == Z_OK;
  if (!ok) throw std::runtime_error("cannot unpack " + from);
  write_text(to, text);
}

// A copy of one golden run in a directory of its own.
class GoldenRun {
 public:
  explicit GoldenRun(const std::string& name)
      : source_(std::string(HLITE_TEST_DATA) + "/golden/" + name) {
    for (const auto& file : std::filesystem::directory_iterator(source_)) {
      const std::filesystem::path path = file.path();
      if (path.extension() == ".gz")
        unpack_gzip(path, directory_ / path.stem().string());
      else
        write_text(directory_ / path.filename().string(), read_text(path));
    }
  }
  [[nodiscard]] std::string operator/(const std::string& file) const { return directory_ / file; }
  [[nodiscard]] const std::string& path() const { return directory_.path(); }

 private:
  std::string source_;
  TemporaryDirectory directory_;
};

}  // namespace hlite::test
