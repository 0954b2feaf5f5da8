// KeyCounter: how many training batches have had a key that has no row yet, on the CPU or a GPU,
// exactly (ExactCounter) or by a filter of fixed size (KeyFilter), as the admission says.
//
// What is counted depends on the batches alone, not on the order of threads, and a run that is made
// again counts nothing twice.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/hashed_args.h"
#include "embedding/tables_spec.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/tensor_ref.h"

namespace hlite::embedding {

// The words of a tensor in a file; nullopt if there is none.
using WordsOf = std::function<std::optional<std::vector<uint32_t>>(const std::string& tensor)>;

// The memory and threads of a counter.
struct KeyCounterPlace {
  Exec exec = {};
  int64_t rows = 0;      // keys with a row, at most
  int64_t max_keys = 0;  // keys of a training batch, at most
  int rank = 0, ranks = 1;
  // Returns the keys that have a row. REQUIRES that nothing runs.
  std::function<std::vector<uint64_t>()> keys_with_row = {};
};

class KeyCounter {
 public:
  KeyCounter() = default;
  KeyCounter(const KeyCounter&) = delete;
  KeyCounter& operator=(const KeyCounter&) = delete;
  virtual ~KeyCounter() = default;
  [[nodiscard]] virtual int64_t bytes() const = 0;
  virtual void allocate() = 0;
  virtual void clear() = 0;

  // On the CPU: counts a key for `iteration`, once. Returns its count, or 0 if it is not taken or
  // its count is known to the caller.
  virtual uint32_t count(uint64_t key, uint32_t iteration) = 0;
  // Prefetches the cache lines that count() will read, if it counts here.
  virtual void prefetch(uint64_t key) const = 0;
  // There: the key that was counted last has got a row. REQUIRES that it is `key`.
  virtual void has_row(uint64_t key) = 0;
  // On a GPU: what the kernels of an insertion need.
  virtual void add_to(AdmissionArgs& args) const = 0;

  // These are called between two iterations and synchronize the device.
  // Makes place for other keys, after `iteration`.
  virtual void forget(int64_t iteration) = 0;
  // The number of keys that are counted.
  [[nodiscard]] virtual int64_t size() = 0;
  // The tensors of a file. Collective. They borrow from the counter.
  [[nodiscard]] virtual std::vector<TensorRef> tensors(const comm::RankContext& ranks) = 0;
  // Takes the counts of a file that is going to be read: those that its tensors' put() does not
  // bring. `owns`: whether this rank counts a key of a table.
  virtual void read(const WordsOf& words_of,
                    const std::function<bool(int64_t table, uint32_t key)>& owns) = 0;
};

// Null if the admission counts nothing. `spec` must outlive the counter.
std::unique_ptr<KeyCounter> make_key_counter(const TablesSpec& spec, KeyCounterPlace place);

}  // namespace hlite::embedding
