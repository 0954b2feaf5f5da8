#include "hugectr_lite/preparation/engine/key_dictionary.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

namespace {
constexpr int kFirstBits = 7;  // buckets
// Keys between asking for a bucket and looking at it.
constexpr size_t kKeysAhead = 64;

// Bit i: keys[i] is key.
template <typename Key>
unsigned equal_bits(const Key (&keys)[8], Key key) {
#ifdef __AVX2__
  if constexpr (sizeof(Key) == 4) {
    const __m256i all = _mm256_load_si256(reinterpret_cast<const __m256i*>(keys));
    const __m256i equal = _mm256_cmpeq_epi32(all, _mm256_set1_epi32(static_cast<int>(key)));
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(equal)));
  }
#endif
  unsigned bits = 0;
  for (unsigned i = 0; i < 8; ++i) bits |= static_cast<unsigned>(keys[i] == key) << i;
  return bits;
}
}  // namespace

template <typename Key>
KeyDictionary<Key>::KeyDictionary(MemoryBudget& budget, uint64_t key_limit)
    : budget_(budget),
      key_limit_(key_limit),
      buckets_(budget, size_t{1} << kFirstBits),
      direct_(budget),
      mask_(buckets_.size() - 1),
      shift_(64 - kFirstBits) {}

template <typename Key>
void KeyDictionary<Key>::number(const Key* keys, size_t count, uint32_t* ids,
                                std::vector<Key>* added) {
  for (size_t at = 0; at < count;) {
    at = is_direct() ? number_directly(keys, at, count, ids, added)
                     : number_in_buckets(keys, at, count, ids, added);
  }
}

template <typename Key>
typename KeyDictionary<Key>::Place KeyDictionary<Key>::place_of(Key key) const {
  const Bucket* const buckets = buckets_.data();
  for (size_t b = home(key);; b = (b + 1) & mask_) {
    const Bucket& bucket = buckets[b];
    const unsigned equal = equal_bits(bucket.keys, key);
    // An empty place looks like key 0, which comes after the real one.
    if (const int at = std::countr_zero(equal); equal != 0 && bucket.ids_plus_1[at] != 0)
      return {b, at, true};
    if (bucket.ids_plus_1[kBucketKeys - 1] != 0) continue;
    int at = 0;
    while (bucket.ids_plus_1[at] != 0) ++at;
    return {b, at, false};
  }
}

template <typename Key>
size_t KeyDictionary<Key>::number_in_buckets(const Key* keys, size_t first, size_t count,
                                             uint32_t* ids, std::vector<Key>* added) {
  for (size_t i = first; i < count; ++i) {
    __builtin_prefetch(&buckets_[home(keys[std::min(i + kKeysAhead, count - 1)])]);
    const Key key = keys[i];
    const Place place = place_of(key);
    uint32_t& id_plus_1 = buckets_[place.bucket].ids_plus_1[place.at];
    if (place.found) {
      ids[i] = id_plus_1 - 1;
      continue;
    }
    ids[i] = next_id();
    id_plus_1 = ids[i] + 1;
    buckets_[place.bucket].keys[place.at] = key;
    if (added) added->push_back(key);
    if (static_cast<uint64_t>(size_) > buckets_.size() * (kBucketKeys * 5 / 8)) {
      grow();
      return i + 1;
    }
  }
  return count;
}

template <typename Key>
size_t KeyDictionary<Key>::number_directly(const Key* keys, size_t first, size_t count,
                                           uint32_t* ids, std::vector<Key>* added) {
  for (size_t i = first; i < count; ++i) {
    if (i + kKeysAhead < count)
      __builtin_prefetch(&direct_[static_cast<size_t>(keys[i + kKeysAhead])]);
    const Key key = keys[i];
    HLITE_CHECK(key < key_limit_, "key {}, limit {}", key, key_limit_);
    uint32_t& id_plus_1 = direct_[static_cast<size_t>(key)];
    if (id_plus_1 == 0) {
      id_plus_1 = next_id() + 1;
      if (added) added->push_back(key);
    }
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
  const size_t wanted = buckets_.size() * 2;
  if (key_limit_ > 0 && key_limit_ * sizeof(uint32_t) <= wanted * sizeof(Bucket))
    return become_direct();
  const BudgetArray<Bucket> old = buckets_.replaced(wanted);
  mask_ = wanted - 1;
  --shift_;
  for_each_in(old, [&](Key key, uint32_t id) {
    const Place place = place_of(key);
    buckets_[place.bucket].keys[place.at] = key;
    buckets_[place.bucket].ids_plus_1[place.at] = id + 1;
  });
}

template <typename Key>
void KeyDictionary<Key>::become_direct() {
  BudgetArray<uint32_t> direct(budget_, static_cast<size_t>(key_limit_));
  for_each([&](Key key, uint32_t id) {
    HLITE_CHECK(key < key_limit_, "key {}, limit {}", key, key_limit_);
    direct[static_cast<size_t>(key)] = id + 1;
  });
  direct_.swap(direct);
  BudgetArray<Bucket>(budget_).swap(buckets_);
}

template <typename Key>
int64_t KeyDictionary<Key>::find(Key key) const {
  if (is_direct()) return key < key_limit_ ? int64_t{direct_[static_cast<size_t>(key)]} - 1 : -1;
  const Place place = place_of(key);
  return int64_t{buckets_[place.bucket].ids_plus_1[place.at]} - 1;
}

template <typename Key>
template <typename Visit>
void KeyDictionary<Key>::for_each_in(const BudgetArray<Bucket>& buckets, const Visit& visit) {
  for (size_t b = 0; b < buckets.size(); ++b)
    for (int i = 0; i < kBucketKeys && buckets[b].ids_plus_1[i] != 0; ++i)
      visit(buckets[b].keys[i], buckets[b].ids_plus_1[i] - 1);
}

template <typename Key>
void KeyDictionary<Key>::for_each(FunctionRef<void(Key key, uint32_t id)> visit) const {
  for_each_in(buckets_, visit);
  for (size_t key = 0; key < direct_.size(); ++key)
    if (direct_[key] != 0) visit(static_cast<Key>(key), direct_[key] - 1);
}

template class KeyDictionary<uint32_t>;
template class KeyDictionary<uint64_t>;

}  // namespace hlite::prep
