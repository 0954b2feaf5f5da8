// Writes text as a gzip file.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace hlite::test {

inline void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  const bool written =
      file != nullptr && gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
                             static_cast<int>(text.size());
  if (file == nullptr || gzclose(file) != Z_OK || !written) {
    throw std::runtime_error("cannot write " + path);
  }
}

}  // namespace hlite::test
