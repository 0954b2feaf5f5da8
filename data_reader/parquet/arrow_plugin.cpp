// The plug-in exports Parquet files by Arrow C++ (parquet_plugin.h).
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/util/config.h>
#include <arrow/util/decimal.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/parquet/parquet_plugin.h"

namespace hlite::data::parquet {

struct File {
  std::string path;
  int64_t bytes = 0;  // when it was opened
  std::shared_ptr<::parquet::FileMetaData> metadata;
  struct Names {
    std::string name, type;
  };
  std::vector<Names> names;
  std::vector<ColumnInfo> columns;
};

struct Column {
  std::unique_ptr<::parquet::ParquetFileReader> file;
  std::shared_ptr<::parquet::RowGroupReader> group;
  std::shared_ptr<::parquet::ColumnReader> reader;
  bool has_definition = false, has_repetition = false, as_dictionary = false;
  std::vector<int16_t> definition, repetition;
  std::vector<int32_t> indices;
  std::vector<char> values;  // of any type: operator new aligns it for all
  // Of decimals, unless integers hold them as they are: digits after the point, and the bytes of
  // each value where all have as many.
  std::optional<int32_t> scale;
  int32_t value_bytes = 0;
  std::vector<char> numbers;  // what became of the values
};

namespace {

using ::parquet::ByteArray;
static_assert(sizeof(Text) == sizeof(ByteArray) &&
              offsetof(Text, size) == offsetof(ByteArray, len) &&
              offsetof(Text, data) == offsetof(ByteArray, ptr));

// Arrow's own allocator synchronises by what ThreadSanitizer does not see in libraries that it did
// not compile; it knows the system's.
::arrow::MemoryPool* memory_pool() {
#ifdef HLITE_ARROW_SYSTEM_MEMORY
  return ::arrow::system_memory_pool();
#else
  return ::arrow::default_memory_pool();
#endif
}

::parquet::ReaderProperties properties() {
  ::parquet::ReaderProperties p(memory_pool());
  p.set_page_checksum_verification(true);  // of files whose writer made some
  return p;
}

// Calls body(); what it throws becomes words.
template <typename Body>
bool guarded(Failure* failure, Body&& body) noexcept {
  const auto put = [&](const char* text) {
    std::snprintf(failure->text, sizeof(failure->text), "%s", text);
  };
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    put(error.what());
  } catch (...) {
    put("unknown failure of Arrow");
  }
  return false;
}

// Digits after the point of a column of decimals.
std::optional<int32_t> decimal_scale(const ::parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (!logical || !logical->is_decimal()) return std::nullopt;
  return static_cast<const ::parquet::DecimalLogicalType&>(*logical).scale();
}

ValueType value_type(const ::parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (const auto scale = decimal_scale(column))
    return *scale > 0                                         ? ValueType::kDouble
           : column.physical_type() == ::parquet::Type::INT32 ? ValueType::kInt32
                                                              : ValueType::kInt64;
  const bool plain = !logical || logical->is_none() || logical->is_invalid() || logical->is_null();
  const auto* integer = logical && logical->is_int()
                            ? static_cast<const ::parquet::IntLogicalType*>(logical.get())
                            : nullptr;
  const bool is_unsigned = integer != nullptr && !integer->is_signed();
  switch (column.physical_type()) {
    case ::parquet::Type::BOOLEAN:
      return ValueType::kBool;
    case ::parquet::Type::INT32:
      if (!plain && integer == nullptr) return ValueType::kOther;
      return is_unsigned ? ValueType::kUint32 : ValueType::kInt32;
    case ::parquet::Type::INT64:
      if (!plain && integer == nullptr) return ValueType::kOther;
      return is_unsigned ? ValueType::kUint64 : ValueType::kInt64;
    case ::parquet::Type::FLOAT:
      return plain ? ValueType::kFloat : ValueType::kOther;
    case ::parquet::Type::DOUBLE:
      return plain ? ValueType::kDouble : ValueType::kOther;
    case ::parquet::Type::BYTE_ARRAY:
      return plain || logical->is_string() || logical->is_enum() ? ValueType::kText
                                                                 : ValueType::kOther;
    default:
      return ValueType::kOther;
  }
}

// "INT64", "INT32 (Date)", "timestamp[ns]".
std::string type_text(const ::parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  std::string text = ::parquet::TypeToString(column.physical_type());
  if (!logical || logical->is_none() || !logical->is_valid()) return text;
  if (!logical->is_timestamp()) return text + " (" + logical->ToString() + ")";
  using Unit = ::parquet::LogicalType::TimeUnit;
  const auto unit = static_cast<const ::parquet::TimestampLogicalType&>(*logical).time_unit();
  return unit == Unit::MILLIS   ? "timestamp[ms]"
         : unit == Unit::MICROS ? "timestamp[us]"
                                : "timestamp[ns]";
}

void describe_column(const ::parquet::ColumnDescriptor& column, File::Names& names,
                     ColumnInfo& info) {
  info.values = value_type(column);
  info.max_defined = column.max_definition_level();
  info.empty_list = -1;
  // From the root down to the value: what may be missing, and what repeats.
  std::vector<const ::parquet::schema::Node*> path;
  for (const auto* node = column.schema_node().get(); node->parent() != nullptr;
       node = node->parent())
    path.insert(path.begin(), node);
  int16_t defined = 0;
  for (const auto* node : path) {
    if (node->is_repeated()) info.empty_list = defined;
    if (!node->is_required()) ++defined;
  }
  const bool list = column.max_repetition_level() == 1;
  info.readable = info.values != ValueType::kOther && column.max_repetition_level() <= 1;
  // A list of Parquet's schema has two levels of its own below the name; more levels are a struct
  // in it.
  if (list && path.size() > 3) info.readable = false;
  names.name = list ? path.front()->name() : column.path()->ToDotString();
  names.type = type_text(column);
  info.all_null = column.logical_type() && column.logical_type()->is_null();
  if (list) names.type = "list of " + names.type;
  if (column.max_repetition_level() > 1) names.type = "nested list of " + names.type;
  info.name = names.name.c_str();
  info.type = names.type.c_str();
}

std::shared_ptr<::arrow::io::ReadableFile> open_file(const std::string& path, int64_t& bytes) {
  PARQUET_ASSIGN_OR_THROW(auto file, ::arrow::io::ReadableFile::Open(path, memory_pool()));
  PARQUET_ASSIGN_OR_THROW(bytes, file->GetSize());
  return file;
}

bool open(Failure* failure, const char* path, File** out) noexcept {
  return guarded(failure, [&] {
    auto file = std::make_unique<File>();
    file->path = path;
    auto source = open_file(file->path, file->bytes);
    file->metadata =
        ::parquet::ParquetFileReader::Open(std::move(source), properties())->metadata();
    const auto& schema = *file->metadata->schema();
    const auto count = static_cast<size_t>(schema.num_columns());
    file->names.resize(count);
    file->columns.resize(count);
    for (size_t c = 0; c < count; ++c)
      describe_column(*schema.Column(static_cast<int>(c)), file->names[c], file->columns[c]);
    *out = file.release();
  });
}

void close(File* file) noexcept { delete file; }
int64_t rows(const File* file) noexcept { return file->metadata->num_rows(); }
const char* created_by(const File* file) noexcept { return file->metadata->created_by().c_str(); }
int32_t columns(const File* file) noexcept { return static_cast<int32_t>(file->columns.size()); }
ColumnInfo column(const File* file, int32_t index) noexcept {
  return file->columns[static_cast<size_t>(index)];
}
int32_t row_groups(const File* file) noexcept { return file->metadata->num_row_groups(); }

int64_t stored_bytes(const File* file, int32_t row_group, int32_t index) noexcept {
  try {
    return file->metadata->RowGroup(row_group)->ColumnChunk(index)->total_compressed_size();
  } catch (...) {
    return 0;  // a figure for reports; reading the column says what is wrong
  }
}

RowGroupInfo row_group(const File* file, int32_t index) noexcept {
  RowGroupInfo info{};
  try {
    info.rows = file->metadata->RowGroup(index)->num_rows();
  } catch (...) {
    info.rows = -1;
  }
  for (int32_t c = 0; c < columns(file); ++c) info.stored_bytes += stored_bytes(file, index, c);
  return info;
}

bool open_column(Failure* failure, const File* file, int32_t row_group, int32_t index,
                 Column** out) noexcept {
  return guarded(failure, [&] {
    auto column = std::make_unique<Column>();
    int64_t bytes = 0;
    auto source = open_file(file->path, bytes);
    if (bytes != file->bytes)
      throw ::parquet::ParquetException("the file has changed: it had " +
                                        std::to_string(file->bytes) + " bytes, and has " +
                                        std::to_string(bytes) + " now");
    column->file =
        ::parquet::ParquetFileReader::Open(std::move(source), properties(), file->metadata);
    column->group = column->file->RowGroup(row_group);
    const ColumnInfo& info = file->columns[static_cast<size_t>(index)];
    const ::parquet::ColumnDescriptor& type = *file->metadata->schema()->Column(index);
    const auto physical = type.physical_type();
    const bool whole = physical == ::parquet::Type::INT32 || physical == ::parquet::Type::INT64;
    if (const auto scale = decimal_scale(type); scale && (*scale > 0 || !whole))
      column->scale = scale;
    column->value_bytes = type.type_length();
    if (info.values == ValueType::kText) {
      column->reader =
          column->group->ColumnWithExposeEncoding(index, ::parquet::ExposedEncoding::DICTIONARY);
      column->as_dictionary =
          column->reader->GetExposedEncoding() == ::parquet::ExposedEncoding::DICTIONARY;
    } else {
      column->reader = column->group->Column(index);
    }
    column->has_definition = info.max_defined > 0;
    column->has_repetition = info.empty_list >= 0;
    *out = column.release();
  });
}

template <typename Type>
void read_values(Column& column, int64_t most, Piece& piece) {
  auto& reader = static_cast<::parquet::TypedColumnReader<Type>&>(*column.reader);
  using Value = typename Type::c_type;
  column.values.resize(static_cast<size_t>(most) * sizeof(Value));
  auto* values = reinterpret_cast<Value*>(column.values.data());
  while (piece.levels == 0 && reader.HasNext())
    piece.levels = reader.ReadBatch(
        most, column.has_definition ? column.definition.data() : nullptr,
        column.has_repetition ? column.repetition.data() : nullptr, values, &piece.values);
  piece.data = values;
}

// Decimals are whole numbers, of 32 or 64 bits or bytes in two's complement, the most significant
// first; `scale` of their decimal digits stand after the point.
struct Bytes {
  const uint8_t* data;
  int32_t size;
};
Bytes bytes_of(const ::parquet::FixedLenByteArray& x, int32_t size) { return {x.ptr, size}; }
Bytes bytes_of(const ByteArray& x, int32_t) { return {x.ptr, static_cast<int32_t>(x.len)}; }

// The number, if 64 bits hold it.
std::optional<int64_t> small_number(Bytes bytes) {
  if (bytes.size == 0) return std::nullopt;
  const uint8_t sign = (bytes.data[0] & 0x80) != 0 ? 0xff : 0;
  uint64_t number = sign != 0 ? ~uint64_t{0} : 0;
  for (int32_t i = 0; i < bytes.size; ++i) {
    if (i < bytes.size - 8 && bytes.data[i] != sign) return std::nullopt;
    number = number << 8 | bytes.data[i];
  }
  if ((number >> 63 != 0) != (sign != 0)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string digits_of(Bytes bytes) {
  PARQUET_ASSIGN_OR_THROW(const auto number,
                          ::arrow::Decimal256::FromBigEndian(bytes.data, bytes.size));
  return number.ToIntegerString();
}

double nearest(const std::string& digits, int32_t scale) {
  const std::string text = digits + "e-" + std::to_string(scale);
  double x = 0;
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

double nearest(int64_t number, int32_t scale) {
  // Both are doubles, and the quotient is rounded once.
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  constexpr int64_t kExact = int64_t{1} << 53;
  if (number >= -kExact && number <= kExact && static_cast<size_t>(scale) < std::size(kPowers))
    return static_cast<double>(number) / kPowers[scale];
  return nearest(std::to_string(number), scale);
}

template <typename Type>
void read_decimals(Column& column, int64_t most, Piece& piece) {
  read_values<Type>(column, most, piece);
  const auto* const stored = static_cast<const typename Type::c_type*>(piece.data);
  static_assert(sizeof(double) == sizeof(int64_t));
  column.numbers.resize(static_cast<size_t>(piece.values) * sizeof(double));
  auto* const doubles = reinterpret_cast<double*>(column.numbers.data());
  auto* const integers = reinterpret_cast<int64_t*>(column.numbers.data());
  const int32_t scale = *column.scale;
  for (int64_t i = 0; i < piece.values; ++i) {
    if constexpr (std::is_integral_v<typename Type::c_type>) {
      doubles[i] = nearest(int64_t{stored[i]}, scale);
    } else {
      const Bytes bytes = bytes_of(stored[i], column.value_bytes);
      const std::optional<int64_t> number = small_number(bytes);
      if (scale > 0)
        doubles[i] = number ? nearest(*number, scale) : nearest(digits_of(bytes), scale);
      else if (number)
        integers[i] = *number;
      else
        throw ::parquet::ParquetException("expected whole numbers of 64 bits, found " +
                                          digits_of(bytes));
    }
  }
  piece.data = column.numbers.data();
}

void read_dictionary(Column& column, int64_t most, Piece& piece) {
  auto& reader = static_cast<::parquet::ByteArrayReader&>(*column.reader);
  column.indices.resize(static_cast<size_t>(most));
  const ByteArray* dictionary = nullptr;
  while (piece.levels == 0 && reader.HasNext())
    piece.levels = reader.ReadBatchWithDictionary(
        most, column.has_definition ? column.definition.data() : nullptr,
        column.has_repetition ? column.repetition.data() : nullptr, column.indices.data(),
        &piece.values, &dictionary, &piece.dictionary_size);
  piece.indices = column.indices.data();
  piece.dictionary = reinterpret_cast<const Text*>(dictionary);
  for (int64_t i = 0; i < piece.values; ++i)
    if (piece.indices[i] < 0 || piece.indices[i] >= piece.dictionary_size)
      throw ::parquet::ParquetException("index " + std::to_string(piece.indices[i]) +
                                        " into a dictionary of " +
                                        std::to_string(piece.dictionary_size));
}

bool next(Failure* failure, Column* column, int64_t most, Piece* out) noexcept {
  return guarded(failure, [&] {
    *out = {};
    if (column->has_definition) column->definition.resize(static_cast<size_t>(most));
    if (column->has_repetition) column->repetition.resize(static_cast<size_t>(most));
    switch (column->reader->type()) {
      case ::parquet::Type::BOOLEAN:
        read_values<::parquet::BooleanType>(*column, most, *out);
        break;
      case ::parquet::Type::INT32:
        if (column->scale)
          read_decimals<::parquet::Int32Type>(*column, most, *out);
        else
          read_values<::parquet::Int32Type>(*column, most, *out);
        break;
      case ::parquet::Type::INT64:
        if (column->scale)
          read_decimals<::parquet::Int64Type>(*column, most, *out);
        else
          read_values<::parquet::Int64Type>(*column, most, *out);
        break;
      case ::parquet::Type::FIXED_LEN_BYTE_ARRAY:
        if (!column->scale) throw ::parquet::ParquetException("a type that cannot be read");
        read_decimals<::parquet::FLBAType>(*column, most, *out);
        break;
      case ::parquet::Type::FLOAT:
        read_values<::parquet::FloatType>(*column, most, *out);
        break;
      case ::parquet::Type::DOUBLE:
        read_values<::parquet::DoubleType>(*column, most, *out);
        break;
      case ::parquet::Type::BYTE_ARRAY:
        if (column->scale)
          read_decimals<::parquet::ByteArrayType>(*column, most, *out);
        else if (column->as_dictionary)
          read_dictionary(*column, most, *out);
        else
          read_values<::parquet::ByteArrayType>(*column, most, *out);
        break;
      default:
        throw ::parquet::ParquetException("a type that cannot be read");
    }
    if (column->has_definition) out->definition = column->definition.data();
    if (column->has_repetition) out->repetition = column->repetition.data();
  });
}

void close_column(Column* column) noexcept { delete column; }

}  // namespace
}  // namespace hlite::data::parquet

extern "C" __attribute__((visibility("default"))) const hlite::data::parquet::Plugin*
hlite_parquet_plugin() noexcept {
  using namespace hlite::data::parquet;
  static const Plugin plugin{.version = kInterfaceVersion,
                             .arrow = ARROW_VERSION_STRING,
                             .open = open,
                             .close = close,
                             .rows = rows,
                             .created_by = created_by,
                             .columns = columns,
                             .column = column,
                             .row_groups = row_groups,
                             .row_group = row_group,
                             .stored_bytes = stored_bytes,
                             .open_column = open_column,
                             .next = next,
                             .close_column = close_column};
  return &plugin;
}
