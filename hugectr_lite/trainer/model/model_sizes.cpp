#include "hugectr_lite/trainer/model/model_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/matmul_context.h"

namespace hlite::trainer {
namespace {

// The row capacity of all ranks together.
int64_t rows_held(const Model& model, const embedding::EmbeddingLayer& layer) {
  return layer.hashed() ? layer.hash_capacity() * model.ranks() : layer.layout().total_rows;
}

LayerSize size_of(const Model& model, const embedding::EmbeddingLayer& layer) {
  const auto& layout = layer.layout();
  const int64_t held = rows_held(model, layer);
  std::string output;
  for (const embedding::EmbeddingTop& top : layer.tops())
    output += (output.empty() ? "" : " ") + network::to_string({top.rows, top.width});
  return {
      layer.name(), layer.type(), output,
      fmt::format("{} tables, {}{} rows", layout.tables(), layer.hashed() ? "up to " : "", held),
      held * layout.width};
}

}  // namespace

std::vector<LayerSize> layer_sizes(const Model& model) {
  const auto& data = model.config().data;
  std::vector<LayerSize> sizes;
  sizes.push_back({data.name, "Data",
                   fmt::format("[B,{}] [B,{}] [B,{}]", data.label_width(), data.dense_width(),
                               data.key_layout().columns),
                   fmt::format("label, dense, keys; {}", data.format->name), 0});
  for (const auto& e : model.layers().embeddings) sizes.push_back(size_of(model, *e));
  for (const network::DescribedLayer& e : model.layers().network->described())
    sizes.push_back({e.name, e.type, e.outputs, e.summary, e.parameters});
  return sizes;
}

std::vector<TableSize> table_sizes(const Model& model) {
  std::vector<TableSize> list;
  for (const auto& e : model.layers().embeddings) {
    const auto add = [&, row = e->table_row_bytes()](std::string name, int64_t rows) {
      list.push_back({std::move(name), rows, rows * row});
    };
    const auto& rows = e->layout().table_rows;
    if (e->hashed())
      add(e->name(), rows_held(model, *e));
    else
      for (size_t t = 0; t < rows.size(); ++t)
        add(embedding::table_name(e->name(), static_cast<int64_t>(t)), rows[t]);
  }
  return list;
}

std::string largest_tables(std::vector<TableSize> tables) {
  constexpr size_t kNamed = 3;
  std::stable_sort(tables.begin(), tables.end(),
                   [](const TableSize& a, const TableSize& b) { return a.bytes > b.bytes; });
  tables.resize(std::min(tables.size(), kNamed));
  std::vector<std::string> texts;
  for (const TableSize& t : tables)
    texts.push_back(fmt::format("{} ({} rows, {})", t.name, t.rows, bytes_text(t.bytes)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<LayerTiers> tiers_of(const Model& model) {
  std::vector<LayerTiers> list;
  for (const auto& e : model.layers().embeddings) {
    const embedding::TableStorage& storage = e->tables().storage();
    if (!storage.tier()) continue;
    const auto tiers = storage.tier()->memories();
    for (size_t i = 0; i < tiers.size(); ++i) {
      const embedding::StorageTier& of = tiers[i];
      list.push_back({.name = e->name(),
                      .first = of.name,
                      .second = of.others,
                      .rows = storage.own_rows(),
                      .resident = of.lines,
                      .row_bytes = e->row_bytes(),
                      .in_second = of.disk                ? storage.own_rows() - of.lines
                                   : i + 1 < tiers.size() ? tiers[i + 1].lines
                                                          : storage.own_rows(),
                      .is_lower = i > 0,
                      .largest_file = of.largest_file,
                      .forecast = of.forecast});
    }
  }
  return list;
}

std::vector<embedding::RowCacheCounts> moved_rows(const Model& model) {
  std::vector<embedding::RowCacheCounts> list;
  for (const auto& e : model.layers().embeddings)
    if (const embedding::RowTier* const tier = e->tables().storage().tier())
      for (const auto& memory : tier->memories(/*counted=*/true)) list.push_back(memory.moved);
  return list;
}

std::vector<std::string> tier_texts(const LayerTiers& t) {
  const double share = static_cast<double>(t.resident) / static_cast<double>(t.rows);
  std::vector<std::string> lines = {
      fmt::format("{}: {} of {} rows ({:.1f} %, {}) in {}, {} ({}) on {}", t.name, t.resident,
                  t.rows, 100 * share, bytes_text(t.resident * t.row_bytes), t.first,
                  t.in_second == t.rows              ? "all of them"
                  : t.second.starts_with("the disk") ? "the others"
                                                     : fmt::format("{}", t.in_second),
                  bytes_text(t.in_second * t.row_bytes), t.second)};
  if (!t.forecast) {
    lines.push_back(fmt::format(
        "{}: the share of lookups that find their rows in {} is unknown, as the data have no "
        "counts of keys",
        t.name, t.first));
    return lines;
  }
  const auto bytes = [](double n) { return bytes_text(std::llround(n)); };
  lines.push_back(fmt::format(
      "{}: {:.1f} % of lookups are expected to find their rows in {}; an iteration reads {} "
      "from {} and writes {}",
      t.name, 100 * t.forecast->rows.resident_share(), t.first, bytes(t.forecast->read_bytes),
      t.second, bytes(t.forecast->written_bytes)));
  return lines;
}

std::string tier_traffic_text(const LayerTiers& t, const embedding::RowCacheCounts& moved) {
  const std::string expected =
      t.forecast ? fmt::format(" (expected: {:.1f} %)", 100 * t.forecast->rows.resident_share())
                 : "";
  return fmt::format(
      "{}: {:.1f} %{} of {} lookups found their rows in {}; {} rows came from {} and {} went "
      "there ({} read, {} written)",
      t.name, 100 * moved.resident_share(), expected, moved.lookups, t.first, moved.fetched,
      t.second, moved.written, bytes_text(moved.read_bytes), bytes_text(moved.written_bytes));
}

int64_t host_row_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const auto& e : model.layers().embeddings) bytes += e->tables().host_bytes();
  return bytes;
}

MemoryEstimate memory_of(const Model& model) {
  const plan::Buffers& buffers = model.buffers();
  MemoryEstimate m;
  m.tables = buffers.total_bytes(plan::BufferKind::kTable);
  m.optimizer_states = buffers.total_bytes(plan::BufferKind::kState);
  m.dense_parameters = buffers.total_bytes(plan::BufferKind::kParameter);
  m.activations = buffers.total_bytes(plan::BufferKind::kActivation);
  m.gradients = buffers.total_bytes(plan::BufferKind::kGradient);
  m.batch =
      buffers.total_bytes(plan::BufferKind::kInput) + buffers.total_bytes(plan::BufferKind::kAhead);
  for (const auto& e : model.layers().embeddings) m.workspace += e->tables().workspace_bytes();
  if (model.gpu()) {
    m.batch *= 2;                 // one arrives while the other is worked on
    m.matmul = 2 * kMatmulBytes;  // of the lanes kCompute and kWeights
  }
  return m;
}

void require_device_memory(const Model& model) {
  const MemoryEstimate m = memory_of(model);
  require_device_memory(*model.gpu(), model.buffers().device_bytes() + m.workspace + m.matmul,
                        table_sizes(model));
}

void require_device_memory(const cuda::Backend& gpu, int64_t needed,
                           const std::vector<TableSize>& tables) {
  int64_t free = 0, total = 0;
  gpu.memory_info(&free, &total);
  if (needed <= free) return;
  raise<DeviceError>(
      "device memory: {} needed, {} of {} free, {} missing; the largest tables: {}; "
      "solver.embedding_memory (\"auto\", or gpu_gb), a smaller batch or --device cpu may help",
      bytes_text(needed), bytes_text(free), bytes_text(total), bytes_text(needed - free),
      largest_tables(tables));
}

}  // namespace hlite::trainer
