#include "embedding/table_storage.h"

#include <algorithm>

#include "embedding/cutter.h"
#include "hugectr_lite/core/float_loops.h"

namespace hlite::embedding {

// Initial values of a row, as the table stores it.
static void store_initial_values(const TableRowInit& init, const TableRow& of, int64_t width,
                                 FloatType type, std::byte* row) {
  if (type == FloatType::kFloat) return init.fill(of.table, of.key, reinterpret_cast<float*>(row));
  thread_local std::vector<float> values;  // grows once
  values.resize(static_cast<size_t>(width));
  init.fill(of.table, of.key, values.data());
  with_float_type(type, [&]<typename W>() {
    narrow(values.data(), width, reinterpret_cast<W*>(row));  // exact: they are rounded
  });
}

void TableStorage::initial_weights(uint32_t own_row, std::byte* weights) const {
  store_initial_values(*init_, key_of_ ? key_of_(own_row) : table_row(own_row), spec_.layout.width,
                       spec_.table_type, weights);
}

// Calls fill(first row, rows) for pieces of `rows` in host memory: all of them, or those that are
// then copied to a GPU.
template <typename Fill>
static void in_host_pieces(const Exec& exec, const WeightRows& rows, Fill&& fill) {
  if (!exec.on_gpu()) return fill(0, rows);
  constexpr int64_t kPiece = 1 << 16;
  std::vector<std::byte> values(
      static_cast<size_t>(std::min(kPiece, rows.dim(0)) * rows.row_bytes()));
  for (int64_t first = 0; first < rows.dim(0); first += kPiece) {
    const WeightRows piece(values.data(), std::min(kPiece, rows.dim(0) - first), rows.dim(1),
                           rows.type());
    fill(first, piece);
    put_bytes(exec, rows.row_at(first), piece.bytes(),
              static_cast<size_t>(piece.dim(0) * piece.row_bytes()));
  }
}

TableStorage::TableStorage(const TablesSpec& spec, const TablesPlace& place)
    : spec_(spec), placement_(place.placement), ranks_(place.ranks), exec_(place.exec()) {
  const comm::RankContext& ranks = ranks_;
  HLITE_CHECK((placement_ ? placement_->ranks() : 1) == ranks.ranks(),
              "{}: placement for another number of ranks than {}", spec_.name, ranks.ranks());
  HLITE_CHECK((placement_ && placement_->hashed()) == (spec_.hash_capacity > 0),
              "{}: placement by key, or not", spec_.name);
  if (spec_.hash_capacity > 0)
    init_ = std::make_unique<TableRowInit>(spec_.seed, spec_.name, spec_.init_rows,
                                           spec_.layout.width, spec_.table_type);
  if (spec_.table_type != FloatType::kFloat) {
    const auto rounding = [&](RowRounding::NameOfRow name_of_row) {
      return std::make_unique<const RowRounding>(spec_.seed, spec_.name, spec_.layout.tables(),
                                                 std::move(name_of_row));
    };
    own_rounding_ = rounding([this](int64_t row) { return held_row(row); });
    replicated_rounding_ = rounding([this](int64_t row) { return placement_->table_row(-1, row); });
  }
  const TierKind* const kind = place.memory.kind;
  if (!kind) return;
  if (!init_)
    init_ = std::make_unique<TableRowInit>(spec_.seed, spec_.name, spec_.layout, spec_.init_stddev,
                                           spec_.table_type);
  const auto initial = [this](uint32_t row, std::byte* weights) { initial_weights(row, weights); };
  const TierSetup setup{
      .spec = spec_, .place = place, .rows = own_rows(), .initial_weights = initial};
  tier_ = kind->make(setup);
  beyond_memory_ = kind->on_disk(setup);
}

TableRow TableStorage::table_row(uint32_t own_row) const {
  if (placement_) return placement_->table_row(ranks_.rank, own_row);
  const auto& offset = spec_.layout.table_offset;
  const auto table = std::upper_bound(offset.begin(), offset.end(), int64_t{own_row}) - 1;
  return {table - offset.begin(), static_cast<uint32_t>(own_row - *table)};
}

TableRow TableStorage::held_row(int64_t row) const {
  const uint32_t own = row_of_line_(static_cast<uint32_t>(row));
  return key_of_ ? key_of_(own) : table_row(own);
}

std::vector<std::vector<uint32_t>> TableStorage::touched_keys() const {
  std::vector<std::vector<uint32_t>> keys(static_cast<size_t>(spec_.layout.tables()));
  if (!tier_) return keys;  // no own rows
  for (const uint32_t row : tier_->touched()) {
    const TableRow of = table_row(row);
    keys[static_cast<size_t>(of.table)].push_back(of.key);
  }
  return keys;
}

int64_t TableStorage::own_rows() const {
  return placement_ ? placement_->rows_of(ranks_.rank) : spec_.layout.total_rows;
}

void TableStorage::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  rows_.declare(
      buffers, spec_,
      {.own = own_rows(),
       .held = held_rows(),
       .replicated = ranks_.ranks() > 1 ? std::optional(replicated_rows()) : std::nullopt});
  if (tier_) tier_->declare(buffers);
}

void TableStorage::start(const Exec& host) {
  if (own_rounding_ && exec_.on_gpu() && !names_.data()) name_rows(host);
  if (!tier_) return;
  tier_->attach(exec_, own());
  row_of_line_ = tier_->row_of_line();
  own_names_.row_of_line = row_of_line_.rows;
}

// Rows without a placement are in order, and the keys of hashed ones say whose they are.
TableStorage::NameArrays TableStorage::cut_names(Cutter& cutter) const {
  const bool numbers = placement_ && !placement_->hashed();
  return {.seeds = cutter.cut<uint64_t>(spec_.layout.tables()),
          .first_rows = cutter.cut<int64_t>(spec_.layout.tables()),
          .own = cutter.cut<uint32_t>(numbers ? own_rows() : 0),
          .replicated = cutter.cut<uint32_t>(numbers ? replicated_rows() : 0)};
}

int64_t TableStorage::names_bytes() const {
  Cutter cutter(nullptr);
  if (own_rounding_ && exec_.on_gpu()) (void)cut_names(cutter);
  return static_cast<int64_t>(cutter.bytes());
}

void TableStorage::name_rows(const Exec& host) {
  names_ = ExecMemory(exec_, static_cast<size_t>(names_bytes()), "names of rows");
  Cutter cutter(names_.data());
  const NameArrays arrays = cut_names(cutter);
  const SlotLayout& layout = spec_.layout;
  const auto tables = static_cast<size_t>(layout.tables());
  put_bytes(exec_, arrays.seeds, own_rounding_->seeds().data(), tables * sizeof(uint64_t));
  put_bytes(exec_, arrays.first_rows, layout.table_offset.data(), tables * sizeof(int64_t));
  own_names_.seeds = arrays.seeds;
  own_names_.first_rows = arrays.first_rows;
  own_names_.tables = static_cast<int32_t>(tables);
  replicated_names_ = own_names_;
  if (!placement_ || placement_->hashed()) return;
  const auto number = [&](uint32_t* to, int rank, int64_t rows) {
    constexpr int64_t kPiece = 1 << 20;
    std::vector<uint32_t> numbers;
    for (int64_t first = 0; first < rows; first += kPiece) {
      numbers.resize(static_cast<size_t>(std::min(kPiece, rows - first)));
      host.threads().parallel_for(std::ssize(numbers), 1 << 12, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const TableRow of = placement_->table_row(rank, first + i);
          numbers[static_cast<size_t>(i)] =
              static_cast<uint32_t>(layout.table_offset[static_cast<size_t>(of.table)] + of.key);
        }
      });
      put_bytes(exec_, to + first, numbers.data(), numbers.size() * sizeof(uint32_t));
    }
  };
  number(arrays.own, ranks_.rank, own_rows());
  number(arrays.replicated, -1, replicated_rows());
  own_names_.numbers = arrays.own;
  replicated_names_.numbers = arrays.replicated;
}

void TableStorage::initialize(const Exec& exec) const {
  if (exec_.on_gpu()) exec_.cuda->device_synchronize();  // runs are on other streams
  const Exec &own_exec = rows_.on_gpu() ? exec_ : exec,
             &replicated_exec = exec_.on_gpu() ? exec_ : exec;
  const UpdatedRows own = all_own(), replicated = this->replicated();
  const bool has_own = !tier_ || tier_->all_rows();  // else rows that were never written have them
  const bool in_order = !placement_ && own.w.type() == FloatType::kFloat;
  if (has_own && in_order && spec_.init_stddev > 0)
    initialize_normal(exec);
  else if (has_own && in_order)
    init_tables(own_exec, spec_.seed, spec_.name, spec_.layout, own.w.as<float>());
  else if (has_own)
    initialize_rows(exec, own_exec, ranks_.rank, own.w);
  if (placement_) initialize_rows(exec, replicated_exec, -1, replicated.w);
  const float initial = optimizer::initial_state(spec_.rule);
  const auto fill_states = [&](const Exec& where, const UpdatedRows& rows) {
    for (const auto& states : {rows.state0, rows.state1})
      fill_values(where, {states.data(), states.size()}, initial);
  };
  if (initial != 0) {  // memory starts out zeroed
    if (has_own) fill_states(own_exec, own);
    fill_states(replicated_exec, replicated);
  }
  if (exec_.on_gpu()) exec_.cuda->stream_synchronize(exec_.stream);
}

// The rows of a rank, or the replicated ones (rank < 0), one by one.
void TableStorage::initialize_rows(const Exec& host, const Exec& exec, int rank,
                                   const WeightRows& rows) const {
  const TableRowInit init(spec_.seed, spec_.name, spec_.layout, spec_.init_stddev,
                          spec_.table_type);
  in_host_pieces(exec, rows, [&](int64_t first, const WeightRows& piece) {
    host.threads().parallel_for(piece.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const TableRow of = rank < 0 ? placement_->table_row(-1, first + i)
                                     : table_row(static_cast<uint32_t>(first + i));
        store_initial_values(init, of, piece.dim(1), piece.type(), piece.row_at(i));
      }
    });
  });
}

// All rows in order. Those of a GPU come from the host, by the piece.
void TableStorage::initialize_normal(const Exec& host) const {
  const SlotLayout& layout = spec_.layout;
  constexpr int64_t kPieceFloats = int64_t{1} << 22;
  const int64_t most = std::max<int64_t>(1, kPieceFloats / layout.width);
  std::vector<float> piece;
  for (int64_t t = 0, before = 0; t < layout.tables(); ++t) {
    const int64_t rows = layout.table_rows[static_cast<size_t>(t)];
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t n = std::min(most, rows - row);
      piece.resize(static_cast<size_t>(n * layout.width));
      init_normal_rows(host, spec_.seed, table_name(spec_.name, t), spec_.init_stddev, row,
                       Matrix<float>(piece.data(), n, layout.width));
      if (tier_)
        std::ranges::copy(piece, all_own().w.as<float>().row(before + row));
      else
        buffers_->write<float>(rows_.own_weights(), (before + row) * layout.width, piece);
    }
    before += rows;
  }
}

void TableStorage::initial_values(int64_t table, uint32_t key, int64_t row) const {
  if (tier_) return;  // the row has them as long as it is untouched
  const UpdatedRows rows = own();
  store_initial_values(*init_, {table, key}, rows.w.dim(1), rows.w.type(), rows.w.row_at(row));
  for (const auto& states : {rows.state0, rows.state1})
    if (states.data())
      std::fill_n(states.row(row), states.dim(1), optimizer::initial_state(spec_.rule));
}

}  // namespace hlite::embedding
