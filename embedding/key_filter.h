// KeyFilter: counts of keys in a counting Bloom filter (AdmissionType::kBloom): the memory is fixed
// by the number of keys expected and the share of counts that may be too high, whatever the keys
// are. A count is never too low until the filter forgets or saturates at kMaxFilterCount.
//
// Sources: L. Fan, P. Cao, J. Almeida, A. Broder, "Summary cache: a scalable wide-area Web cache
// sharing protocol" (2000), for the counters; C. Estan, G. Varghese, "New directions in traffic
// measurement and accounting" (2002), for raising no counter beyond a key's own count; G. Einziger,
// R. Friedman, B. Manes, "TinyLFU" (2017), for halving. DeepRec's CBFFilter takes the same numbers.
//
// The filter has kKeyParts parts, each with functions x slice counters of 8 bits, and a rank has
// the parts of its keys (KeyOwner::kByPart). So the counts are the same on any number of ranks.
// The count of a key is taken from the counters that all batches before have left: keys of a batch
// wait until the next one, and then raise their counters to their counts. Maxima do not depend on
// an order, and to raise twice is to raise once.
//
// A key that has got its row keeps its count, so when its row leaves and the key comes again, it
// gets a row at once, unless the filter has forgotten it meanwhile.
#pragma once

#include <vector>

#include "embedding/key_counter.h"
#include "embedding/key_filter_ref.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

// The size of a filter whose counters are half zeros when it holds `expected_keys`: then a share of
// 2^-functions <= `false_positive` of other keys finds none of its counters zero.
struct FilterShape {
  int32_t functions = 1;  // ceil(-log2(false_positive))
  uint32_t slice = 1;     // counters for each of them in a part: keys / ln 2
  [[nodiscard]] int64_t counters() const { return int64_t{functions} * slice; }
  [[nodiscard]] int64_t part_bytes() const { return (counters() + 3) / 4 * 4; }
};
FilterShape filter_shape(int64_t expected_keys, double false_positive);

class KeyFilter final : public KeyCounter {
 public:
  KeyFilter(const TablesSpec& spec, KeyCounterPlace place);
  [[nodiscard]] int64_t bytes() const override;
  void allocate() override;
  void clear() override;
  uint32_t count(uint64_t key, uint32_t iteration) override;
  void prefetch(uint64_t key) const override;
  void has_row(uint64_t) override {}
  void add_to(AdmissionArgs& args) const override { args.filter = ref_; }

  // Halves the counts of each part of which more than half of the counters are not zero.
  void forget(int64_t iteration) override;
  // An estimate, by the share of counters that are zero; with the keys that have got a row.
  [[nodiscard]] int64_t size() override;
  // <layer>.filter, [kKeyParts, words of a part].
  [[nodiscard]] std::vector<TensorRef> tensors(const comm::RankContext& ranks) override;
  // Takes the counts of an ExactCounter.
  void read(const WordsOf& words_of,
            const std::function<bool(int64_t table, uint32_t key)>& owns) override;

 private:
  [[nodiscard]] int64_t own_parts() const {
    return (int64_t{kKeyParts} - place_.rank + place_.ranks - 1) / place_.ranks;
  }
  [[nodiscard]] bool on_gpu() const { return place_.exec.on_gpu(); }
  [[nodiscard]] KeyFilterRef cut(std::byte* memory, size_t* bytes) const;
  void synchronize();
  void raise(uint8_t* part, const FilterEntry& entry) const;
  [[nodiscard]] std::vector<uint8_t> part(int64_t own) const;
  // Calls use(part, first byte in the part, words after the first, words) for the pieces of parts
  // that words [first, first + count) of a file's tensor are.
  void for_each_piece(int64_t first, int64_t count,
                      const std::function<void(int64_t, int64_t, int64_t, int64_t)>& use) const;
  [[nodiscard]] std::vector<float> own_words(int64_t first, int64_t count) const;

  const TablesSpec& spec_;
  const KeyCounterPlace place_;
  const FilterShape shape_;
  ExecMemory memory_;
  KeyFilterRef ref_;
  std::vector<FilterEntry> waiting_;  // on the CPU: keys of iteration step_
  uint32_t step_ = 0;
};

}  // namespace hlite::embedding
