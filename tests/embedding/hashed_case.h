// A hashed layer's index and rows for the tests, on the CPU or a GPU.
#pragma once

#include <algorithm>
#include <vector>

#include "embedding/hashed_index.h"
#include "embedding/hashed_lookup.h"
#include "embedding/lookup.h"
#include "hugectr_lite/core/random.h"

namespace hlite::test {

class HashedCase {
 public:
  static constexpr int64_t kMaxBatch = 64;

  // Slots of the given hotness, between columns of other layers. `tables`: SlotLayout's.
  HashedCase(const Exec& exec, std::vector<int64_t> hotness, int64_t width, int64_t capacity,
             embedding::Combiner combiner = embedding::Combiner::kSum,
             std::vector<int64_t> tables = {}, const embedding::VocabularyRules& rules = {})
      : exec_(exec),
        spec_(spec_of(std::move(hotness), width, capacity, combiner, std::move(tables), rules)),
        storage_(
            spec_,
            {.placement = std::make_shared<embedding::RowPlacement>(embedding::RowPlacement::by_key(
                 spec_.layout, 1, capacity, embedding::KeyOwner::kByKey)),
             .gpu = exec.cuda}),
        index(spec_, storage_, exec, kMaxBatch) {
    storage_.declare(buffers_);
    if (exec.on_gpu())
      buffers_.allocate(*exec.cuda);
    else
      buffers_.allocate();
    index.allocate();
    slots_ = std::make_unique<embedding::DeviceSlots>(exec, layout().pooled(storage_.own_rows()));
    step_memory_ = ExecMemory(exec, sizeof(int64_t), "step");
    set_iterations(0);
  }

  // The iterations before the next batch of training.
  void set_iterations(int64_t done) { put_bytes(exec_, step_memory_.data(), &done, sizeof(done)); }

  [[nodiscard]] const embedding::SlotLayout& layout() const { return spec_.layout; }
  [[nodiscard]] int64_t columns() const { return spec_.layout.keys.columns; }

  // Keys of `batch` samples below `below`, or among the largest there are; some are missing.
  [[nodiscard]] std::vector<uint32_t> draw(int64_t batch, uint32_t below, uint64_t round) const {
    std::vector<uint32_t> keys;
    for (int64_t i = 0; i < batch * columns(); ++i) {
      const auto at = static_cast<uint64_t>(i);
      const uint32_t key = random::word(round, 1, at) % below;
      const bool missing = random::word(round, 2, at) % 5 == 0;
      keys.push_back(missing ? kNoKey : key % 3 == 0 ? kNoKey - 1 - key : key);
    }
    return keys;
  }

  // The rows of a batch; of the layer's columns.
  std::vector<uint32_t> find_rows(const std::vector<uint32_t>& keys, bool training) {
    on_device(keys);
    index.find_rows(exec_, slots_->ref(), keys_, rows_, training, step());
    std::vector<uint32_t> rows(keys.size());
    get_bytes(exec_, rows.data(), rows_.data(), rows.size() * sizeof(uint32_t));
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t s = layout().keys.slot_of(static_cast<int64_t>(i) % columns()) - 1;
      if (s < 0 || s >= layout().slots()) rows[i] = 0;
    }
    return rows;
  }

  // A list of keys of any tables, on the device: the rows of each, and what is gathered by them
  // into rows that hold 9. `capacity_exceeded`: where training finds the table full.
  struct Listed {
    std::vector<uint32_t> rows;
    std::vector<float> vectors;
    int32_t capacity_exceeded;
  };
  Listed take_list(const std::vector<std::pair<uint32_t, uint32_t>>& slots_and_keys,
                   bool training) {
    const auto n = static_cast<int64_t>(slots_and_keys.size());
    const size_t bytes = slots_and_keys.size() * sizeof(uint32_t);
    std::vector<uint32_t> slots, keys;
    for (const auto& [slot, key] : slots_and_keys) {
      slots.push_back(slot);
      keys.push_back(key);
    }
    Listed got{std::vector<uint32_t>(keys.size()),
               std::vector<float>(keys.size() * static_cast<size_t>(layout().width), 9), 0};
    const ExecMemory slots_memory(exec_, bytes, "slots"), keys_memory(exec_, bytes, "keys"),
        rows_memory(exec_, bytes, "rows"), out(exec_, got.vectors.size() * 4, "out"),
        flag(exec_, sizeof(int32_t), "flag"),
        space(exec_, static_cast<size_t>(index.list_workspace(n)), "insertion");
    put_bytes(exec_, slots_memory.data(), slots.data(), bytes);
    put_bytes(exec_, keys_memory.data(), keys.data(), bytes);
    put_bytes(exec_, out.data(), got.vectors.data(), got.vectors.size() * 4);
    put_bytes(exec_, flag.data(), &got.capacity_exceeded, sizeof(int32_t));
    const auto words = [](const ExecMemory& m) { return reinterpret_cast<uint32_t*>(m.data()); };
    const embedding::DeviceSlots one(exec_, embedding::SlotLayout({1}, layout().width));
    const embedding::HashedArgs list{.slots = one.ref(),
                                     .keys = {words(keys_memory), n, 1},
                                     .rows = {words(rows_memory), n, 1},
                                     .requested_tables = words(slots_memory)};
    if (training)
      index.insert_requested(exec_, list, {space.data(), space.size()},
                             reinterpret_cast<int32_t*>(flag.data()), step());
    else
      index.find_requested(exec_, list);
    index.gather_requested(exec_, list, {reinterpret_cast<float*>(out.data()), n, layout().width});
    get_bytes(exec_, got.rows.data(), rows_memory.data(), bytes);
    get_bytes(exec_, got.vectors.data(), out.data(), got.vectors.size() * 4);
    get_bytes(exec_, &got.capacity_exceeded, flag.data(), sizeof(int32_t));
    return got;
  }

  // What an evaluation looks up.
  template <typename T = float>
  std::vector<T> look_up(const std::vector<uint32_t>& keys) {
    (void)find_rows(keys, false);
    const int64_t batch = static_cast<int64_t>(keys.size()) / columns();
    std::vector<T> out(static_cast<size_t>(batch * layout().slots() * layout().width));
    const ExecMemory memory(exec_, out.size() * sizeof(T), "out");
    const View<T, 3> to(reinterpret_cast<T*>(memory.data()), batch, layout().slots(),
                        layout().width);
    const embedding::HashedArgs of{
        .table = {}, .slots = slots_->ref(), .keys = keys_, .rows = rows_};
    embedding::lookup_forward<T>(exec_, of.slots, storage_.own().w, rows_, to);
    embedding::pool_unseen<T>(exec_, of, storage_.own().w, index.absent_values(), to);
    get_bytes(exec_, out.data(), memory.data(), out.size() * sizeof(T));
    return out;
  }

  // Rows [0, n), then their states.
  [[nodiscard]] std::vector<float> values(size_t n) const {
    std::vector<float> all;
    for (const Matrix<float>& part : {storage_.own().w.as<float>(), storage_.own().state0}) {
      std::vector<float> rows(n * static_cast<size_t>(layout().width));
      get_bytes(exec_, rows.data(), part.data(), rows.size() * sizeof(float));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }
  [[nodiscard]] const embedding::TableStorage& storage() const { return storage_; }

 private:
  static embedding::TablesSpec spec_of(std::vector<int64_t> hotness, int64_t width,
                                       int64_t capacity, embedding::Combiner combiner,
                                       std::vector<int64_t> tables,
                                       const embedding::VocabularyRules& rules) {
    const size_t slots = hotness.size();
    hotness.insert(hotness.begin(), 2);
    hotness.push_back(1);
    embedding::TablesSpec spec{
        .name = "emb",
        .layout = {std::vector<int64_t>(slots, int64_t{kNoKey}), width,
                   KeyLayout(std::move(hotness)), combiner, 1, std::move(tables)},
        .rule = {.type = optimizer::OptimizerType::kAdaGrad, .initial_accumulator = 0.25}};
    spec.hash_capacity = capacity;
    spec.init_rows.assign(spec.layout.table_rows.size(), capacity);
    spec.seed = 5;
    spec.vocabulary = rules;
    return spec;
  }

  [[nodiscard]] const int64_t* step() const {
    return reinterpret_cast<const int64_t*>(step_memory_.data());
  }

  void on_device(const std::vector<uint32_t>& keys) {
    const size_t bytes = keys.size() * sizeof(uint32_t);
    const int64_t batch = static_cast<int64_t>(keys.size()) / columns();
    keys_memory_ = ExecMemory(exec_, bytes, "keys");
    rows_memory_ = ExecMemory(exec_, bytes, "rows");
    put_bytes(exec_, keys_memory_.data(), keys.data(), bytes);
    keys_ = {reinterpret_cast<const uint32_t*>(keys_memory_.data()), batch, columns()};
    rows_ = {reinterpret_cast<uint32_t*>(rows_memory_.data()), batch, columns()};
  }

  const Exec exec_;
  const embedding::TablesSpec spec_;
  plan::Buffers buffers_;
  embedding::TableStorage storage_;
  std::unique_ptr<embedding::DeviceSlots> slots_;
  ExecMemory keys_memory_, rows_memory_, step_memory_;
  Matrix<const uint32_t> keys_;
  Matrix<uint32_t> rows_;

 public:
  embedding::HashedIndex index;
};

}  // namespace hlite::test
