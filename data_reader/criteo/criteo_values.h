// Many values of one column of Criteo's rows at once, from files whose columns are not text lines:
// numbers, or texts of tokens. The rows are those that the same values give as fields of a line
// (criteo_record.h).
#pragma once

#include <cstdint>

#include "data_reader/criteo/criteo_record.h"
#include "data_reader/parquet/parquet_plugin.h"

namespace hlite::criteo {

// Elements after the last one that these functions may write.
inline constexpr int64_t kValuesBeyond = 16;

struct ConvertedValues {
  // All of them are of the format. Otherwise what was written, and the rest of this, is
  // unspecified.
  bool good = false;
  int64_t characters = 0;  // that they have as fields of lines
  bool any_empty = false;
};

// Instantiated for T = bool, int32_t, uint32_t, int64_t and uint64_t.
template <typename T>
ConvertedValues labels_of_numbers(const T* from, int64_t count, uint32_t* to);
template <typename T>
ConvertedValues integers_of_numbers(const T* from, int64_t count, uint32_t* to);
// But for bool. Fields have their numbers in hexadecimal digits; a negative one of 32 bits is one
// without sign that was stored with it.
template <typename T>
ConvertedValues tokens_of_numbers(const T* from, int64_t count, const KeyRange& range,
                                  uint32_t* to);
ConvertedValues tokens_of_texts(const data::parquet::Text* from, int64_t count,
                                const KeyRange& range, uint32_t* to);

}  // namespace hlite::criteo
