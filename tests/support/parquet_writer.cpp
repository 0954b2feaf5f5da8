#include "tests/support/parquet_writer.h"

#include <arrow/io/file.h>
#include <parquet/column_writer.h>
#include <parquet/exception.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace hlite::test {
namespace {

namespace pq = ::parquet;
using pq::schema::GroupNode;
using pq::schema::NodePtr;
using pq::schema::PrimitiveNode;

// The physical type by which Parquet stores a T.
template <typename T>
struct Stored;
template <>
struct Stored<int32_t> {
  using Type = pq::Int32Type;
};
template <>
struct Stored<uint32_t> : Stored<int32_t> {};
template <>
struct Stored<int8_t> : Stored<int32_t> {};
template <>
struct Stored<int64_t> {
  using Type = pq::Int64Type;
};
template <>
struct Stored<uint64_t> : Stored<int64_t> {};
template <>
struct Stored<float> {
  using Type = pq::FloatType;
};
template <>
struct Stored<double> {
  using Type = pq::DoubleType;
};
template <>
struct Stored<bool> {
  using Type = pq::BooleanType;
};
template <>
struct Stored<std::string> {
  using Type = pq::ByteArrayType;
};

template <typename T>
std::shared_ptr<const pq::LogicalType> logical_type(const ParquetColumn& column) {
  if (column.date) return pq::LogicalType::Date();
  if (column.timestamp) return pq::LogicalType::Timestamp(false, pq::LogicalType::TimeUnit::NANOS);
  if (column.null_type) return pq::LogicalType::Null();
  if (column.digits > 0) return pq::LogicalType::Decimal(column.digits, column.scale);
  if constexpr (std::is_same_v<T, std::string>)
    return pq::LogicalType::String();
  else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t> ||
                     std::is_same_v<T, int8_t>)
    return pq::LogicalType::Int(8 * sizeof(T), std::is_signed_v<T>);
  else
    return pq::LogicalType::None();
}

NodePtr node_of(const ParquetColumn& column) {
  return std::visit(
      [&]<typename T>([[maybe_unused]] const std::vector<T>& values) {
        const auto kind =
            column.valid.empty() ? pq::Repetition::REQUIRED : pq::Repetition::OPTIONAL;
        const bool list = !column.lengths.empty();
        pq::Type::type stored = Stored<T>::Type::type_num;
        int length = -1;
        if constexpr (std::is_same_v<T, std::string>)
          if (column.digits > 0) {
            stored = pq::Type::FIXED_LEN_BYTE_ARRAY;
            length = static_cast<int>(values.at(0).size());
          }
        NodePtr leaf = PrimitiveNode::Make(list ? "element" : column.name, kind,
                                           logical_type<T>(column), stored, length);
        if (!list) return leaf;
        const NodePtr repeated = GroupNode::Make("list", pq::Repetition::REPEATED, {leaf});
        return GroupNode::Make(column.name, pq::Repetition::OPTIONAL, {repeated},
                               pq::LogicalType::List());
      },
      column.values);
}

// Writes a column from front to back, row group after row group.
class ColumnState {
 public:
  explicit ColumnState(const ParquetColumn& column) : column_(column) {}

  void write(pq::ColumnWriter& writer, int64_t rows, int64_t rows_a_page) {
    for (int64_t done = 0; done < rows; done += rows_a_page)
      std::visit(
          [&]<typename T>(const std::vector<T>& values) {
            const int64_t count = std::min(rows_a_page, rows - done);
            if constexpr (std::is_same_v<T, std::string>)
              if (column_.digits > 0) return write_rows<pq::FLBAType>(writer, values, count);
            write_rows<typename Stored<T>::Type>(writer, values, count);
          },
          column_.values);
  }

 private:
  [[nodiscard]] bool next_is_present() {
    return column_.valid.empty() || column_.valid[element_++];
  }

  template <typename Type, typename T>
  void write_rows(pq::ColumnWriter& writer, const std::vector<T>& values, int64_t rows) {
    std::vector<int16_t> definition, repetition;  // levels, as the Parquet format defines them
    const bool optional = !column_.valid.empty();
    const auto present_level = static_cast<int16_t>((column_.lengths.empty() ? 0 : 2) + optional);
    const size_t first = value_;
    const auto append = [&](bool present) {
      definition.push_back(present ? present_level : static_cast<int16_t>(present_level - 1));
      value_ += present;
    };
    for (int64_t r = 0; r < rows; ++r, ++row_) {
      if (column_.lengths.empty()) {
        append(next_is_present());
        continue;
      }
      const int64_t length = column_.lengths[row_];
      if (length <= 0) definition.push_back(length < 0 ? 0 : 1);
      repetition.push_back(0);
      for (int64_t i = 0; i < length; ++i) {
        if (i > 0) repetition.push_back(1);
        append(next_is_present());
      }
    }
    std::vector<typename Type::c_type> stored;
    std::unique_ptr<bool[]> bools(new bool[value_ - first + 1]);
    for (size_t i = first; i < value_; ++i) {
      if constexpr (std::is_same_v<Type, pq::FLBAType>)
        stored.push_back(pq::FixedLenByteArray(reinterpret_cast<const uint8_t*>(values[i].data())));
      else if constexpr (std::is_same_v<T, std::string>)
        stored.push_back(pq::ByteArray(values[i]));
      else if constexpr (std::is_same_v<T, bool>)
        bools[i - first] = values[i];
      else
        stored.push_back(static_cast<typename Type::c_type>(values[i]));
    }
    const typename Type::c_type* data = nullptr;
    if constexpr (std::is_same_v<T, bool>)
      data = bools.get();
    else
      data = stored.data();
    static_cast<pq::TypedColumnWriter<Type>&>(writer).WriteBatch(
        static_cast<int64_t>(definition.size()), present_level > 0 ? definition.data() : nullptr,
        column_.lengths.empty() ? nullptr : repetition.data(), data);
  }

  const ParquetColumn& column_;
  size_t row_ = 0, element_ = 0, value_ = 0;
};

}  // namespace

void write_parquet(const std::string& path, const ParquetFileText& file) {
  pq::schema::NodeVector nodes;
  std::vector<ColumnState> states;
  for (const ParquetColumn& column : file.columns) {
    nodes.push_back(node_of(column));
    states.emplace_back(column);
  }
  pq::WriterProperties::Builder properties;
  // A page limit of one byte makes Arrow end a page after every WriteBatch(). (If lists are written
  // one at a time, Arrow begins with a page without values, which its reader takes for the end.)
  if (file.rows_a_page < (1 << 20)) properties.data_pagesize(1);
  if (!file.dictionary) properties.disable_dictionary();
  if (file.compressed) properties.compression(pq::Compression::SNAPPY);
  if (file.checksums) properties.enable_page_checksum();
  PARQUET_ASSIGN_OR_THROW(auto out, ::arrow::io::FileOutputStream::Open(path));
  const auto schema = std::static_pointer_cast<GroupNode>(
      GroupNode::Make("schema", pq::Repetition::REQUIRED, nodes));
  const auto writer = pq::ParquetFileWriter::Open(out, schema, properties.build());
  for (int64_t first = 0; first < file.rows; first += file.rows_a_group) {
    pq::RowGroupWriter* group = writer->AppendRowGroup();
    for (ColumnState& state : states)
      state.write(*group->NextColumn(), std::min(file.rows_a_group, file.rows - first),
                  file.rows_a_page);
    group->Close();
  }
  writer->Close();
  PARQUET_THROW_NOT_OK(out->Close());
}

}  // namespace hlite::test
