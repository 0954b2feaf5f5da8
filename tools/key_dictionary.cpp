#include "tools/key_dictionary.h"

#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::tools {

static constexpr int kFirstBits = 10;

KeyDictionary::KeyDictionary()
    : slots_(size_t{1} << kFirstBits), mask_(slots_.size() - 1), shift_(64 - kFirstBits) {}

uint32_t KeyDictionary::insert(uint32_t key, size_t at) {
  if (size_ >= 0xfffffffe) raise<DataError>("a column has more than 2^32 - 2 distinct keys");
  slots_[at] = {key, static_cast<uint32_t>(++size_)};
  if (static_cast<uint64_t>(size_) * 8 > slots_.size() * 5) grow();
  return static_cast<uint32_t>(size_ - 1);
}

void KeyDictionary::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  --shift_;
  for (const Slot& slot : old) {
    if (slot.id_plus_1 == 0) continue;
    size_t at = home(slot.key);
    while (slots_[at].id_plus_1 != 0) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

}  // namespace hlite::tools
