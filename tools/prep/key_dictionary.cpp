#include "tools/prep/key_dictionary.h"

#include "hugectr_lite/core/error.h"

namespace hlite::tools {

namespace {
constexpr int kFirstBits = 10;
// Keys between asking for a slot and looking at it.
constexpr size_t kKeysAhead = 16;
}  // namespace

template <typename Key>
KeyDictionary<Key>::KeyDictionary(MemoryBudget& budget, uint64_t key_limit)
    : budget_(budget),
      key_limit_(key_limit),
      slots_(budget, size_t{1} << kFirstBits),
      direct_(budget),
      mask_(slots_.size() - 1),
      shift_(64 - kFirstBits) {}

template <typename Key>
void KeyDictionary<Key>::number(const Key* keys, size_t count, uint32_t* ids) {
  for (size_t at = 0; at < count;) {
    at =
        is_direct() ? number_directly(keys, at, count, ids) : number_in_slots(keys, at, count, ids);
  }
}

template <typename Key>
size_t KeyDictionary<Key>::number_in_slots(const Key* keys, size_t first, size_t count,
                                           uint32_t* ids) {
  for (size_t i = first; i < count; ++i) {
    if (i + kKeysAhead < count) __builtin_prefetch(&slots_[home(keys[i + kKeysAhead])]);
    const Key key = keys[i];
    size_t at = home(key);
    while (slots_[at].id_plus_1 != 0 && slots_[at].key != key) at = (at + 1) & mask_;
    HashSlot& slot = slots_[at];
    if (slot.id_plus_1 != 0) {
      ids[i] = slot.id_plus_1 - 1;
      continue;
    }
    ids[i] = next_id();
    slot = {key, ids[i] + 1};
    if (static_cast<uint64_t>(size_) * 8 > slots_.size() * 5) {
      grow();
      if (is_direct()) return i + 1;
    }
  }
  return count;
}

template <typename Key>
size_t KeyDictionary<Key>::number_directly(const Key* keys, size_t first, size_t count,
                                           uint32_t* ids) {
  for (size_t i = first; i < count; ++i) {
    if (i + kKeysAhead < count)
      __builtin_prefetch(&direct_[static_cast<size_t>(keys[i + kKeysAhead])]);
    HLITE_CHECK(keys[i] < key_limit_, "key {}, limit {}", keys[i], key_limit_);
    uint32_t& id_plus_1 = direct_[static_cast<size_t>(keys[i])];
    if (id_plus_1 == 0) id_plus_1 = next_id() + 1;
    ids[i] = id_plus_1 - 1;
  }
  return count;
}

template <typename Key>
uint32_t KeyDictionary<Key>::next_id() {
  if (size_ >= 0xfffffffe) raise<DataError>("a column has more than 2^32 - 2 distinct keys");
  return static_cast<uint32_t>(size_++);
}

template <typename Key>
void KeyDictionary<Key>::grow() {
  const size_t wanted = slots_.size() * 2;
  if (key_limit_ > 0 && key_limit_ * sizeof(uint32_t) <= wanted * sizeof(HashSlot))
    return become_direct();
  const BudgetArray<HashSlot> old = slots_.replaced(wanted);
  mask_ = wanted - 1;
  --shift_;
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].id_plus_1 == 0) continue;
    size_t at = home(old[i].key);
    while (slots_[at].id_plus_1 != 0) at = (at + 1) & mask_;
    slots_[at] = old[i];
  }
}

template <typename Key>
void KeyDictionary<Key>::become_direct() {
  BudgetArray<uint32_t> direct(budget_, static_cast<size_t>(key_limit_));
  for_each([&](Key key, uint32_t id) {
    HLITE_CHECK(key < key_limit_, "key {}, limit {}", key, key_limit_);
    direct[static_cast<size_t>(key)] = id + 1;
  });
  direct_.swap(direct);
  BudgetArray<HashSlot>(budget_).swap(slots_);
}

template <typename Key>
int64_t KeyDictionary<Key>::find(Key key) const {
  if (is_direct()) {
    return key < key_limit_ ? int64_t{direct_[static_cast<size_t>(key)]} - 1 : -1;
  }
  for (size_t at = home(key); slots_[at].id_plus_1 != 0; at = (at + 1) & mask_) {
    if (slots_[at].key == key) return int64_t{slots_[at].id_plus_1} - 1;
  }
  return -1;
}

template <typename Key>
void KeyDictionary<Key>::for_each(FunctionRef<void(Key key, uint32_t id)> visit) const {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].id_plus_1 != 0) visit(slots_[i].key, slots_[i].id_plus_1 - 1);
  for (size_t key = 0; key < direct_.size(); ++key)
    if (direct_[key] != 0) visit(static_cast<Key>(key), direct_[key] - 1);
}

template class KeyDictionary<uint32_t>;
template class KeyDictionary<uint64_t>;

}  // namespace hlite::tools
