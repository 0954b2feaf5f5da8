// EmbeddingTables: what an embedding layer computes, for the part of its rows that this rank holds.
// There are two: OneRankTables (every row is here) and ExchangedTables (rows are spread over ranks
// and travel).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "embedding/pooling.h"
#include "embedding/table_layout.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// What a layer's block of the config says about its tables.
struct TablesSpec {
  std::string name;  // of the layer
  TableLayout layout;
  Pooling pooling;
  optimizer::UpdateRule rule;
  optimizer::UpdateType update_type = optimizer::UpdateType::kLocal;
  // Of the ...Hash types: rows of a rank (0: another type), and the table sizes that first values
  // go by.
  int64_t hash_capacity = 0;
  std::vector<int64_t> init_rows = {};
  uint64_t seed = 0;
  bool atomic_update = false;  // SGD on a GPU: no fixed order of sums
};

// One whole table, or one state of one table, as checkpoints name it: <layer>.table_<i>, or
// <layer>.table_<i>.<state>. At `data` where this rank holds it all; else behind two functions, as
// checkpoint::TensorRef has them.
struct NamedRows {
  std::string name;
  int64_t rows = 0, width = 0;  // width 0: not rows, but the uint32 keys of a table's rows
  float* data = nullptr;
  std::function<void(int64_t first, std::span<float> out)> get = {};
  std::function<void(int64_t first, std::span<const float> in)> put = {};
};

inline std::string table_name(const std::string& layer, int64_t slot) {
  return fmt::format("{}.table_{}", layer, slot);
}
inline std::string keys_name(const std::string& layer, int64_t slot) {
  return table_name(layer, slot) + ".keys";
}
inline std::string state_name(const std::string& layer, int64_t slot, optimizer::OptimizerType rule,
                              int state) {
  return fmt::format("{}.{}", table_name(layer, slot), optimizer::state_name(rule, state));
}

// Buffers that the layer's steps share with others.
struct TablesIo {
  plan::BufferId keys = plan::kNoBuffer;    // uint32 [batch, columns of all sparse inputs]
  plan::BufferId output = plan::kNoBuffer;  // [batch, slots, width]
  plan::BufferId grad = plan::kNoBuffer;    // of output
  plan::BufferId rate = plan::kNoBuffer;    // float
  plan::BufferId step = plan::kNoBuffer;    // int64, from 1
  // optimizer::LossScale of the gradients; kNoBuffer: they are not scaled.
  plan::BufferId loss_scale = plan::kNoBuffer;
  bool training = true;  // or evaluation, which leaves the tables alone
};

class EmbeddingTables {
 public:
  virtual ~EmbeddingTables() = default;

  // Names the buffers of tables and states.
  virtual void declare(plan::Buffers& buffers) = 0;
  // Bytes of what is not among the buffers.
  [[nodiscard]] virtual int64_t workspace_bytes() const = 0;

  // keys, tables -> output.
  virtual void emit_forward(plan::Plan& plan, const TablesIo& io) = 0;
  // Of training: what has to happen to the gradients of the output before any update, exchanges
  // included.
  virtual void emit_backward(plan::Plan& plan, const TablesIo& io) = 0;
  virtual void emit_update(plan::Plan& plan, const TablesIo& io) = 0;

  // Takes what the emitted steps need on a device besides buffers.
  virtual void prepare() {}
  // Where rows come as keys come: makes room for the rows of a file, before it is read.
  // keys_of(table): the keys of its rows, ascending.
  virtual void make_room(const std::function<std::vector<uint32_t>(const std::string&)>& keys_of) {
    (void)keys_of;
  }
  // Of tables whose lookups check keys without waiting for the result: waits for it, on the stream
  // of `exec`, behind which all runs are ordered. Throws DeviceError when a key lay beyond its
  // table, though the reader lets none pass.
  virtual void check_keys(const Exec& exec) { (void)exec; }
  // First values of tables and states. REQUIRES allocated buffers.
  virtual void initialize(const Exec& exec, uint64_t seed) const = 0;
  // What a file holds; collective, as rows may be anywhere.
  [[nodiscard]] virtual std::vector<NamedRows> tables() const = 0;
  [[nodiscard]] virtual std::vector<NamedRows> states() const = 0;
};

}  // namespace hlite::embedding
