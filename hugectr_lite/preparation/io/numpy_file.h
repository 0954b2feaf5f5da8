// The .npy format of NumPy, as far as plain arrays of numbers go:
//
//   file   := "\x93NUMPY", version (2 bytes), length (uint16; uint32 from version 2 on), header,
//   data header := "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", blanks, line feed
//
// Blanks align the data to 64 bytes, so that np.load(path, mmap_mode="r") gives aligned arrays.
// Format: NEP 1, numpy.lib.format. We write version 1.0 in C order and read versions 1 to 3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/core/file.h"

namespace hlite::prep {

struct NumpyHeader {
  std::string type;  // as NumPy writes it: byte order, kind, bytes of an item: "<i4", "<u4", "<f4"
  std::vector<int64_t> shape;
  bool fortran_order = false;
  int64_t data_offset = 0;  // of a file that was read
  [[nodiscard]] int64_t item_bytes() const;
};

// The bytes before the data.
std::string numpy_preamble(const NumpyHeader& header);

// Throws DataError "<path>: ..." for what is no .npy file of numbers or has not the bytes that its
// header promises; FileError.
NumpyHeader read_numpy_header(const ByteSource& file);

}  // namespace hlite::prep
