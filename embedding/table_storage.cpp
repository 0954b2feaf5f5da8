#include "embedding/table_storage.h"

#include <algorithm>

#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

// Calls fill(first row, rows) for pieces of `rows` in host memory: all of them, or those that are
// then copied to a GPU.
template <typename Fill>
static void in_host_pieces(const Exec& exec, const Matrix<float>& rows, Fill&& fill) {
  if (!exec.on_gpu()) return fill(0, rows);
  constexpr int64_t kPiece = 1 << 16;
  std::vector<float> values(static_cast<size_t>(std::min(kPiece, rows.dim(0)) * rows.dim(1)));
  for (int64_t first = 0; first < rows.dim(0); first += kPiece) {
    const Matrix<float> piece(values.data(), std::min(kPiece, rows.dim(0) - first), rows.dim(1));
    fill(first, piece);
    put_bytes(exec, rows.row(first), piece.data(),
              static_cast<size_t>(piece.size()) * sizeof(float));
  }
}

TableStorage::TableStorage(const TablesSpec& spec, std::shared_ptr<const RowPlacement> placement,
                           const comm::RankContext& ranks, const Exec& exec)
    : spec_(spec), placement_(std::move(placement)), ranks_(ranks), exec_(exec) {
  HLITE_CHECK((placement_ ? placement_->ranks() : 1) == ranks.ranks(),
              "{}: placement for another number of ranks than {}", spec_.name, ranks.ranks());
  HLITE_CHECK((placement_ && placement_->hashed()) == (spec_.hash_capacity > 0),
              "{}: placement by key, or not", spec_.name);
  if (spec_.hash_capacity > 0)
    init_ =
        std::make_unique<TableRowInit>(spec_.seed, spec_.name, spec_.init_rows, spec_.layout.width);
}

int64_t TableStorage::own_rows() const {
  return placement_ ? placement_->rows_of(ranks_.rank) : spec_.layout.total_rows;
}

void TableStorage::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  const int64_t row_bytes = spec_.layout.width * static_cast<int64_t>(sizeof(float));
  const auto add = [&](const std::string& name, plan::BufferKind kind) {
    Part part{.own = buffers.add(spec_.name + name, kind, own_rows() * row_bytes),
              .copied = plan::kNoBuffer};
    if (ranks_.ranks() > 1)
      part.copied = buffers.add(spec_.name + name + ".copied", kind, copied_rows() * row_bytes);
    parts_.push_back(part);
  };
  add(".tables", plan::BufferKind::kTable);
  for (int i = 0; i < optimizer::state_count(spec_.rule.type); ++i)
    add(std::string(".") + optimizer::state_name(spec_.rule.type, i), plan::BufferKind::kState);
}

std::vector<plan::BufferId> TableStorage::own_buffers() const {
  std::vector<plan::BufferId> list;
  for (const Part& part : parts_) list.push_back(part.own);
  return list;
}
std::vector<plan::BufferId> TableStorage::copied_buffers() const {
  std::vector<plan::BufferId> list;
  for (const Part& part : parts_) list.push_back(part.copied);
  return list;
}

Matrix<float> TableStorage::matrix(plan::BufferId id, int64_t rows) const {
  return {id == plan::kNoBuffer ? nullptr : buffers_->data<float>(id), rows, spec_.layout.width};
}
UpdatedRows TableStorage::arrays(plan::BufferId Part::*which, int64_t rows) const {
  const auto part = [&](size_t i) {
    return i < parts_.size() ? matrix(parts_[i].*which, rows) : Matrix<float>();
  };
  return {part(0), part(1), part(2)};
}

void TableStorage::initialize(const Exec& exec) const {
  if (exec_.on_gpu()) exec_.cuda->device_synchronize();  // runs are on other streams
  const Exec& where = exec_.on_gpu() ? exec_ : exec;
  const UpdatedRows own = this->own(), copied = this->copied();
  if (!placement_ && spec_.init_stddev > 0) {
    initialize_normal(exec);
  } else if (!placement_) {
    init_tables(where, spec_.seed, spec_.name, spec_.layout, own.w);
  } else {
    const TableRowInit init(spec_.seed, spec_.name, spec_.layout, spec_.init_stddev);
    const auto fill = [&](int rank, const Matrix<float>& rows) {
      in_host_pieces(where, rows, [&](int64_t first, const Matrix<float>& piece) {
        exec.threads().parallel_for(piece.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const TableRow row = placement_->table_row(rank, first + i);
            init.fill(row.slot, row.key, piece.row(i));
          }
        });
      });
    };
    fill(ranks_.rank, own.w);
    fill(-1, copied.w);
  }
  const float initial = optimizer::initial_state(spec_.rule);
  if (initial != 0)  // buffers start out zeroed
    for (const auto& states : {own.state0, own.state1, copied.state0, copied.state1})
      fill_values(where, {states.data(), states.size()}, initial);
  if (exec_.on_gpu()) exec_.cuda->stream_synchronize(exec_.stream);
}

// All rows in order. Those of a GPU come from the host, by the piece.
void TableStorage::initialize_normal(const Exec& host) const {
  const SlotLayout& layout = spec_.layout;
  constexpr int64_t kPieceFloats = int64_t{1} << 22;
  const int64_t most = std::max<int64_t>(1, kPieceFloats / layout.width);
  std::vector<float> piece;
  for (int64_t s = 0, before = 0; s < layout.slots(); ++s) {
    const int64_t rows = layout.rows[static_cast<size_t>(s)];
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t n = std::min(most, rows - row);
      piece.resize(static_cast<size_t>(n * layout.width));
      init_normal_rows(host, spec_.seed, table_name(spec_.name, s), spec_.init_stddev, row,
                       Matrix<float>(piece.data(), n, layout.width));
      buffers_->write<float>(parts_[0].own, (before + row) * layout.width, piece);
    }
    before += rows;
  }
}

void TableStorage::first_values(int64_t slot, uint32_t key, int64_t row) const {
  const UpdatedRows rows = own();
  init_->fill(slot, key, rows.w.row(row));
  for (const auto& states : {rows.state0, rows.state1})
    if (states.data())
      std::fill_n(states.row(row), spec_.layout.width, optimizer::initial_state(spec_.rule));
}

}  // namespace hlite::embedding
