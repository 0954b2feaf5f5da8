// Writes Parquet files for tests with Arrow's writer: columns of any supported type, nulls, lists,
// row groups and pages.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hlite::test {

struct ParquetColumn {
  std::string name;
  // The values that are not null, in order. For lists: the elements of all rows, one after another.
  std::variant<std::vector<int32_t>, std::vector<int64_t>, std::vector<uint32_t>,
               std::vector<uint64_t>, std::vector<int8_t>, std::vector<float>, std::vector<double>,
               std::vector<std::string>, std::vector<bool>>
      values;
  // One flag for each value or list element; false: it is null. Empty: none is null, and the schema
  // says REQUIRED.
  std::vector<bool> valid = {};
  // Number of elements of each row's list; -1: a null list. Empty: the column holds no lists.
  std::vector<int64_t> lengths = {};
  bool date = false;       // int32 values are dates: days since 1970-01-01
  bool timestamp = false;  // int64 values are nanoseconds since 1970-01-01
  bool null_type = false;  // int32 values, all of them null, are of the type that has no values
  // Values are decimals of so many digits, `scale` of them after the point: int32, int64, or texts
  // of one length, which are the bytes of whole numbers, the most significant first.
  int digits = 0, scale = 0;
};

struct ParquetFileText {
  std::vector<ParquetColumn> columns;
  int64_t rows = 0;
  int64_t rows_a_group = 1 << 20;
  int64_t rows_a_page = 1 << 20;
  bool dictionary = true;   // dictionary encoding
  bool compressed = false;  // by Snappy
  bool checksums = false;   // a CRC for each page
};

// Throws parquet::ParquetException.
void write_parquet(const std::string& path, const ParquetFileText& file);

}  // namespace hlite::test
