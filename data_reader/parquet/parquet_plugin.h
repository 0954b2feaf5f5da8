// The Parquet plug-in: libhlite_parquet.so, the one library that uses Arrow C++, opened when the
// first Parquet file is.
//
// It hands out a file's schema and the values of one column of one row group, a piece at a time, as
// plain arrays: Parquet's own levels and values. Decimals alone are converted, to the nearest double
// or, without digits after the point, to int64_t. What values mean is decided on the program's side
// (parquet_file.h, column_decoder.h), which needs no header of Arrow.
//
// Functions are noexcept; one that can fail returns false and leaves plain words in a Failure, as
// those of the CUDA plug-in do (core/cuda_plugin.h says why). Neither Arrow nor the plug-in is
// instrumented by sanitizers: memory that crosses is written by the plug-in alone, in the thread
// that reads it.
#pragma once

#include <cstdint>

namespace hlite::data::parquet {

inline constexpr const char* kLibraryName = "libhlite_parquet.so";
inline constexpr const char* kEntryName = "hlite_parquet_plugin";
// Counted up with every change of what follows.
inline constexpr int32_t kInterfaceVersion = 2;

struct Failure {
  char text[1024] = {};
};

// Says how values lie in a Piece.
enum class ValueType : int32_t {
  kBool,    // bool
  kInt32,   // int32_t, also of narrower columns
  kUint32,  // uint32_t, the same
  kInt64,
  kUint64,
  kFloat,
  kDouble,
  kText,   // Text: strings, bytes
  kOther,  // dates, times, ...: cannot be read
};

struct Text {
  uint32_t size;
  const char* data;
};

// A column of values: one leaf of Parquet's schema. Texts live as long as the file.
struct ColumnInfo {
  const char* name;  // of the top-level column; of a value in a struct its path with dots
  const char* type;  // for messages: "INT64", "INT32 (Date)", "timestamp[ns]", "list of INT64"
  ValueType values;
  // A level of definition says how much of a value is there. At max_defined it is; in a list, at
  // empty_list the list is there and has no element. Everything else is null. Not a list:
  // empty_list is -1.
  int16_t max_defined, empty_list;
  bool readable;  // a value or a list of values a row, of a type that is not kOther
  bool all_null;  // its type, Arrow's null, has no values
};

struct RowGroupInfo {
  int64_t rows;
  int64_t stored_bytes;  // of all its columns
};

// The next values of a column.
struct Piece {
  int64_t levels;  // rows, or of a list elements, and one for each null or empty list; 0: the end
  const int16_t* definition;  // [levels]; null where max_defined is 0
  const int16_t* repetition;  // [levels]: 0 begins a row; null where the column is no list
  int64_t values;             // levels with a value
  const void* data;           // [values] of the column's type; null where `indices` are there
  const int32_t* indices;     // [values] into the dictionary, for texts that are stored so
  const Text* dictionary;
  int32_t dictionary_size;
};

struct File;    // a file's footer; no descriptor is kept
struct Column;  // an open column of a row group

struct Plugin {
  int32_t version;
  const char* arrow;  // version of Arrow C++

  // Any number of threads may use a File; one a Column.
  bool (*open)(Failure*, const char* path, File**) noexcept;
  void (*close)(File*) noexcept;
  int64_t (*rows)(const File*) noexcept;
  const char* (*created_by)(const File*) noexcept;
  int32_t (*columns)(const File*) noexcept;
  ColumnInfo (*column)(const File*, int32_t index) noexcept;
  int32_t (*row_groups)(const File*) noexcept;
  RowGroupInfo (*row_group)(const File*, int32_t index) noexcept;
  int64_t (*stored_bytes)(const File*, int32_t row_group, int32_t column) noexcept;

  bool (*open_column)(Failure*, const File*, int32_t row_group, int32_t column, Column**) noexcept;
  // The next piece of at most that many levels, valid until the next call.
  bool (*next)(Failure*, Column*, int64_t max_levels, Piece*) noexcept;
  void (*close_column)(Column*) noexcept;
};

using PluginEntry = const Plugin* (*)() noexcept;

}  // namespace hlite::data::parquet
