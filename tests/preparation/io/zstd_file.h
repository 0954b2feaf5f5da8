// Writes text as a zstd file of one frame.
#pragma once

#include <zstd.h>

#include <stdexcept>
#include <string>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

inline std::string zstd_frame(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size)) throw std::runtime_error("cannot compress");
  packed.resize(size);
  return packed;
}

inline void write_zstd(const std::string& path, const std::string& text) {
  write_text(path, zstd_frame(text));
}

}  // namespace hlite::test
