#include "hugectr_lite/preparation/apply/table_batches.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

namespace {

constexpr int64_t kTableRowsAtOnce = 1024;  // parsed by one thread

template <typename T>
std::string_view number_of(const TableColumn& column, int64_t row, char* buffer) {
  char* const end = write_number(static_cast<const T*>(column.values)[row], buffer);
  return {buffer, static_cast<size_t>(end - buffer)};
}

}  // namespace

std::string_view TableColumn::field(int64_t row, char* buffer) const {
  if (missing && missing[row]) return {};
  switch (kind) {
    case Kind::kNone:
      return {};
    case Kind::kInt64:
      return number_of<int64_t>(*this, row, buffer);
    case Kind::kUint64:
      return number_of<uint64_t>(*this, row, buffer);
    case Kind::kFloat:
      return number_of<float>(*this, row, buffer);
    case Kind::kDouble:
      return number_of<double>(*this, row, buffer);
    case Kind::kBool:
      return static_cast<const uint8_t*>(values)[row] ? "true" : "false";
    case Kind::kText:
      return texts[static_cast<size_t>(row)];
  }
  return {};
}

TableBatches::TableBatches(const Preparation& preparation, std::span<const TableColumn> columns,
                           int64_t rows, const config::DataConfig& config,
                           std::span<const int64_t> slot_rows, int64_t batch, ThreadPool& pool)
    : preparation_(preparation),
      parser_(preparation.table_schema()),
      layout_(row_layout(preparation.table_schema())),
      columns_(columns),
      rows_(rows),
      format_(preparation.format()),
      pool_(pool),
      buffer_(std::min(batch, rows), config.label_width(), config.dense_width(),
              config.key_layout().columns) {
  preparation.check_fits(config, preparation.path());
  const auto widest = static_cast<size_t>(std::max(layout_.dense_bytes, layout_.key_bytes));
  for (int i = 0; i < pool.threads(); ++i) {
    Worker& worker =
        workers_.emplace_back(Worker{.unknown = data::UnknownValues(slot_rows.size()),
                                     .decoder = {"frame", format_, slot_rows, config.key_policy}});
    worker.rows.stride = (static_cast<size_t>(kTableRowsAtOnce) * widest + 63) / 64 * 64;
    worker.rows.arrays =
        HostMemory(worker.rows.stride * static_cast<size_t>(layout_.arrays()), "rows of a table");
    worker.digits.resize(columns.size() * static_cast<size_t>(kNumberBytes));
    worker.fields.resize(columns.size());
  }
}

void TableBatches::parse(Worker& worker, int64_t first, int64_t count) const {
  ParsedRows& rows = worker.rows;
  rows.rows = count;
  rows.missing.assign(static_cast<size_t>(layout_.slots), 0);
  const data::ColumnArrays arrays(layout_, rows.arrays.data(), rows.stride, rows.missing.data());
  for (int64_t row = 0; row < count; ++row) {
    for (size_t c = 0; c < columns_.size(); ++c)
      worker.fields[c] = columns_[c].field(
          first + row, worker.digits.data() + c * static_cast<size_t>(kNumberBytes));
    if (const ColumnProblem problem = parser_.read(worker.fields, worker.values))
      raise<DataError>("frame: row {}: {}", first + row, *problem);
    parser_.put(worker.values, arrays, row);
  }
}

const data::HostBatch& TableBatches::next() {
  const int64_t begin = taken_, size = std::min(rows_ - taken_, buffer_.batch().labels.dim(0));
  buffer_.set_size(size);
  data::HostBatch& batch = buffer_.batch();
  batch.first_sample = begin;
  for (Worker& worker : workers_) worker.replaced = 0;
  pool_.run((size + kTableRowsAtOnce - 1) / kTableRowsAtOnce, [&](int64_t task, int thread) {
    Worker& worker = workers_[static_cast<size_t>(thread)];
    const int64_t first = task * kTableRowsAtOnce, count = std::min(kTableRowsAtOnce, size - first);
    parse(worker, begin + first, count);
    worker.records.bytes.clear();
    preparation_.encode(worker.rows, worker.records, worker.unknown);
    worker.replaced += worker.decoder.decode(
        {worker.records.bytes.data(), static_cast<size_t>(count * format_.record_bytes())},
        begin + first, count, batch, first);
  });
  for (const Worker& worker : workers_) batch.replaced_keys += worker.replaced;
  taken_ += size;
  return batch;
}

data::UnknownValues TableBatches::unknown() const {
  data::UnknownValues all(preparation_.slot_sizes().size());
  for (const Worker& worker : workers_) all.add(worker.unknown);
  return all;
}

}  // namespace hlite::prep
