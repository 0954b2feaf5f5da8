// The Parquet plug-in: libhlite_parquet.so, the only library that uses Arrow C++, loaded with
// the first Parquet file.
//
// It hands out a file's schema and the values of one column of one row group, a piece at a time, as
// plain arrays: Parquet's own levels and values. Only decimals are converted: with scale 0 to an
// integer, otherwise to the nearest double. The program interprets the values (parquet_file.h,
// column_decoder.h) and needs no Arrow headers.
//
// Functions are noexcept; one that can fail returns false and leaves plain words in a Failure, as
// those of the CUDA plug-in do (core/cuda_plugin.h says why). Sanitizers instrument neither
// Arrow nor the plug-in, so only the plug-in writes shared memory, in the thread that reads it.
#pragma once

#include <cstdint>

namespace hlite::data::parquet {

inline constexpr const char* kLibraryName = "libhlite_parquet.so";
inline constexpr const char* kEntryName = "hlite_parquet_plugin";
// Incremented when anything below changes.
inline constexpr int32_t kInterfaceVersion = 2;

struct Failure {
  char text[1024] = {};
};

// Type of the values in a Piece.
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

// A column of values: one leaf of the schema. Its strings live as long as the File.
struct ColumnInfo {
  const char* name;  // the top-level column's; for a struct member its dotted path
  const char* type;  // for messages: "INT64", "INT32 (Date)", "timestamp[ns]", "list of INT64"
  ValueType values;
  // Definition levels: at max_defined the value is present; at empty_list the list is present but
  // empty; any other level means null. empty_list is -1 if the column is not a list.
  int16_t max_defined, empty_list;
  bool readable;  // one value or one flat list per row, of a type other than kOther
  bool all_null;  // of type null: it has no values
};

struct RowGroupInfo {
  int64_t rows;
  int64_t stored_bytes;  // of all its columns
};

// The next values of a column.
struct Piece {
  int64_t levels;             // rows; for lists: elements plus null or empty lists; 0: the end
  const int16_t* definition;  // [levels]; null where max_defined is 0
  const int16_t* repetition;  // [levels]: 0 begins a row; null where the column is no list
  int64_t values;             // levels with a value
  const void* data;           // [values] of the column's type; null if `indices` is set
  const int32_t* indices;     // [values] into the dictionary, if texts are encoded so
  const Text* dictionary;
  int32_t dictionary_size;
};

struct File;    // a file's footer; no descriptor is kept
struct Column;  // an open column of a row group

struct Plugin {
  int32_t version;
  const char* arrow;  // version of Arrow C++

  // Threads may share a File, but not a Column.
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
  // Reads a piece of up to max_levels levels, valid until the next call.
  bool (*next)(Failure*, Column*, int64_t max_levels, Piece*) noexcept;
  void (*close_column)(Column*) noexcept;
};

using PluginEntry = const Plugin* (*)() noexcept;

}  // namespace hlite::data::parquet
