// StoredRows: the rows of a TableStorage by their numbers, in any tier. Steps work on the buffers;
// files and eviction read and write rows here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "embedding/row_moves.h"
#include "embedding/row_tier.h"
#include "embedding/row_use.h"
#include "embedding/tables_spec.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

class StoredRows {
 public:
  // The weights, a state or the uses of all rows, the rank's own and the replicated ones.
  struct Part {
    plan::BufferId own, replicated;
    int64_t width;     // elements a row
    FloatType type;    // the weights' type, or float
    size_t index = 0;  // in parts()
  };
  // Own rows, those of them that the buffers hold, and replicated rows, if ranks can have some.
  struct Counts {
    int64_t own = 0, held = 0;
    std::optional<int64_t> replicated = {};
  };
  // Returns the values of row i of a list in float: in place or, on a GPU or for 16-bit rows, a
  // copy.
  using Values = std::function<float*(size_t i)>;
  using Use = std::function<void(const Values&)>;

  // The tier, null or not, must outlive it.
  StoredRows(const Exec& exec, const std::unique_ptr<RowTier>& tier) : exec_(exec), tier_(tier) {}
  // Names the buffers. The other functions need them, and arrays allocated ones.
  void declare(plan::Buffers& buffers, const TablesSpec& spec, const Counts& counts);

  [[nodiscard]] const Exec& exec() const { return exec_; }
  // Weights, then states.
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  // The part of uses, if the tables keep them.
  [[nodiscard]] const std::optional<Part>& uses_part() const { return uses_; }
  // The buffers that a step reads of the own or the replicated rows: of weights, or of all parts.
  [[nodiscard]] plan::BufferId own_weights() const { return parts_[0].own; }
  [[nodiscard]] plan::BufferId replicated_weights() const { return parts_[0].replicated; }
  [[nodiscard]] std::vector<plan::BufferId> own_buffers() const { return buffers(&Part::own); }
  [[nodiscard]] std::vector<plan::BufferId> replicated_buffers() const {
    return buffers(&Part::replicated);
  }
  // The buffers as arrays, with no rounding.
  [[nodiscard]] WeightRows array(const Part& part, plan::BufferId Part::*which) const;
  [[nodiscard]] UpdatedRows arrays(plan::BufferId Part::*which) const;
  // Returns true if the buffers hold all own rows, so that array() has them by number.
  [[nodiscard]] bool in_buffers() const { return !tier_; }
  // Returns true if own rows are read and written in the memory of a GPU.
  [[nodiscard]] bool on_gpu() const { return exec_.on_gpu() && in_buffers(); }

  // Calls use() with the values of own rows in any memory, which are then written back if `write`,
  // rounded to nearest. Synchronizes the device.
  void with_own(const Part& part, std::span<const uint32_t> rows, bool write, const Use& use) const;
  void with_replicated(const Part& part, std::span<const uint32_t> rows, bool write,
                       const Use& use) const {
    with_rows(array(part, &Part::replicated), exec_.on_gpu(), rows, write, use);
  }

  // The uses of the own rows of hashed tables, in memory of the device; null if the tables keep
  // none. They stay in memory in every tier, since eviction looks at all of them.
  [[nodiscard]] RowUse* uses() const {
    return uses_ ? reinterpret_cast<RowUse*>(buffers_->data<std::byte>(uses_->own)) : nullptr;
  }
  // The first `count` of them, and the reverse. Synchronize the device.
  [[nodiscard]] std::vector<RowUse> uses_of(int64_t count) const;
  void set_uses(const std::vector<RowUse>& uses) const;
  // L2 norms of the first `count` own rows. Synchronizes the device.
  [[nodiscard]] std::vector<float> norms(int64_t count) const;
  // Lets the rows of hashed tables close up when the evicted ones leave: rows move with their
  // states and uses. Must be called before the index changes. Synchronizes the device.
  void close_up(const RowMoves& moves, const std::vector<uint32_t>& evicted) const;

 private:
  [[nodiscard]] std::vector<plan::BufferId> buffers(plan::BufferId Part::*which) const;
  [[nodiscard]] bool is_uses(const Part& part) const { return uses_ && part.own == uses_->own; }
  void with_rows(const WeightRows& table, bool on_gpu, std::span<const uint32_t> rows, bool write,
                 const Use& use) const;
  void with_device_rows(const WeightRows& table, std::span<const uint32_t> rows, bool write,
                        const Use& use) const;
  void move(const Part& part, const RowMoves& moves) const;

  const Exec exec_;
  const std::unique_ptr<RowTier>& tier_;
  const plan::Buffers* buffers_ = nullptr;
  Counts counts_;
  std::vector<Part> parts_;
  std::optional<Part> uses_;  // two words a row, as floats
};

}  // namespace hlite::embedding
