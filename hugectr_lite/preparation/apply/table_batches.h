// Columns of a table in memory to batches of a model: what TextBatches does to the lines of a file,
// without lines between.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/number_text.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/preparation/csv/field_parser.h"

namespace hlite::prep {

// Values of one type, one a row. What they are read from must outlive it.
struct TableColumn {
  enum class Kind { kNone, kInt64, kUint64, kFloat, kDouble, kBool, kText };
  Kind kind = Kind::kNone;
  const void* values = nullptr;              // kBool: bytes
  const uint8_t* missing = nullptr;          // [rows] 1: there is no value; null: all are there
  std::vector<std::string_view> texts = {};  // kText
  // The value as a field of a line would have it, empty where there is none. Points to the value
  // or into `buffer`, which has room for kNumberBytes.
  [[nodiscard]] std::string_view field(int64_t row, char* buffer) const;
};

class TableBatches {
 public:
  // `columns`: [table_schema().columns_needed()] of the preparation; those that no feature is read
  // from may be of kind kNone. `rows`: at least one. Throws DataError where the preparation's rows
  // are not those that `config` describes.
  TableBatches(const Preparation& preparation, std::span<const TableColumn> columns, int64_t rows,
               const config::DataConfig& config, std::span<const int64_t> slot_rows, int64_t batch,
               ThreadPool& pool);

  // The next batch, valid until the next call; of size 0 at the end. Throws DataError "frame: row
  // 17: ..." for a value that is not of its column's type, or a category without an id where the
  // config's key_policy refuses such.
  const data::HostBatch& next();
  [[nodiscard]] data::UnknownValues unknown() const;

 private:
  // What a thread works with.
  struct Worker {
    data::UnknownValues unknown;
    data::RawDecoder decoder;
    ParsedRows rows = {};
    EncodedRows records = {};
    std::vector<char> digits = {};
    std::vector<std::string_view> fields = {};
    FieldValues values = {};
    int64_t replaced = 0;
  };
  void parse(Worker& worker, int64_t first, int64_t count) const;

  const Preparation& preparation_;
  const FieldParser parser_;
  const data::RowLayout layout_;
  const std::span<const TableColumn> columns_;
  const int64_t rows_;
  const data::RawFormat format_;
  ThreadPool& pool_;
  std::vector<Worker> workers_;  // one a thread
  int64_t taken_ = 0;            // rows
  data::BatchBuffer buffer_;
};

}  // namespace hlite::prep
