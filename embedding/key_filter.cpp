#include "embedding/key_filter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "embedding/cutter.h"
#include "embedding/exact_counter.h"
#include "embedding/row_place.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

// Parts do not get the same numbers of keys: by hash, up to three standard deviations of a Poisson
// distribution above the mean fit one.
FilterShape filter_shape(int64_t expected_keys, double false_positive) {
  const double mean = static_cast<double>(expected_keys) / kKeyParts,
               keys = mean + 3 * std::sqrt(mean);
  return {.functions = std::max(1, static_cast<int32_t>(std::ceil(-std::log2(false_positive)))),
          .slice = static_cast<uint32_t>(std::ceil(keys / std::numbers::ln2))};
}

KeyFilter::KeyFilter(const TablesSpec& spec, KeyCounterPlace place)
    : spec_(spec),
      place_(std::move(place)),
      shape_(filter_shape(spec.vocabulary.admission.expected_keys,
                          spec.vocabulary.admission.false_positive)) {}

KeyFilterRef KeyFilter::cut(std::byte* memory, size_t* bytes) const {
  Cutter cutter(memory);
  KeyFilterRef ref{.part_bytes = shape_.part_bytes(),
                   .slice = shape_.slice,
                   .functions = shape_.functions,
                   .ranks = static_cast<uint32_t>(place_.ranks),
                   .max_waiting = static_cast<uint32_t>(place_.max_keys)};
  ref.counters = cutter.cut<uint8_t>(own_parts() * shape_.part_bytes());
  if (on_gpu()) {
    ref.state = cutter.cut<KeyFilterRef::State>(1);
    ref.waiting = cutter.cut<FilterEntry>(place_.max_keys);
  }
  *bytes = cutter.bytes();
  return ref;
}

int64_t KeyFilter::bytes() const {
  size_t bytes = 0;
  (void)cut(nullptr, &bytes);
  return static_cast<int64_t>(bytes);
}

void KeyFilter::allocate() {
  size_t bytes = 0;
  (void)cut(nullptr, &bytes);
  memory_ = ExecMemory(place_.exec, bytes, "filter of keys");
  ref_ = cut(memory_.data(), &bytes);
  clear();
}

void KeyFilter::clear() {
  const std::vector<std::byte> zeros(static_cast<size_t>(ref_.part_bytes));
  for (int64_t own = 0; own < own_parts(); ++own)
    put_bytes(place_.exec, ref_.counters + own * ref_.part_bytes, zeros.data(), zeros.size());
  waiting_.clear();
  step_ = 0;
  const KeyFilterRef::State none;
  if (on_gpu()) put_bytes(place_.exec, ref_.state, &none, sizeof(none));
}

uint32_t KeyFilter::count(uint64_t key, uint32_t iteration) {
  HLITE_CHECK(hashed_rank(KeyOwner::kByPart, static_cast<int64_t>(key >> 32),
                          static_cast<uint32_t>(key), place_.ranks) == place_.rank,
              "{}: key {} is another rank's", spec_.name, key);
  if (step_ != iteration) {
    synchronize();
    step_ = iteration;
  }
  const uint32_t count = ref_.count_with_batch(key);
  waiting_.push_back({key, count});
  return count;
}

void KeyFilter::prefetch(uint64_t key) const {
  const KeyFilterRef::Places of = ref_.places_of(key);
  for (int32_t i = 0; i < ref_.functions; ++i)
    __builtin_prefetch(ref_.counters + ref_.place(of, i));
}

// Counts in a part's counters on the host. Counters above the key's count are shared with other
// keys.
void KeyFilter::raise(uint8_t* part, const FilterEntry& entry) const {
  KeyFilterRef::Places of = ref_.places_of(entry.key);
  of.first = 0;
  for (int32_t i = 0; i < ref_.functions; ++i) {
    uint8_t& counter = part[ref_.place(of, i)];
    counter = static_cast<uint8_t>(std::max<uint32_t>(counter, entry.count));
  }
}

// Counts the keys of the last batch.
void KeyFilter::synchronize() {
  if (!on_gpu()) {
    for (const FilterEntry& entry : waiting_)
      raise(ref_.counters + ref_.places_of(entry.key).first, entry);
    waiting_.clear();
    return;
  }
  place_.exec.cuda->device_synchronize();  // runs are on other streams
  kernels::raise_counts(place_.exec, ref_);
  place_.exec.cuda->device_synchronize();
  KeyFilterRef::State state;
  get_bytes(place_.exec, &state, ref_.state, sizeof(state));
  state.waiting = 0;
  put_bytes(place_.exec, ref_.state, &state, sizeof(state));
}

// The counters of the rank's own-th part.
std::vector<uint8_t> KeyFilter::part(int64_t own) const {
  std::vector<uint8_t> counters(static_cast<size_t>(ref_.part_bytes));
  get_bytes(place_.exec, counters.data(), ref_.counters + own * ref_.part_bytes, counters.size());
  return counters;
}

static int64_t zeros_of(const std::vector<uint8_t>& counters, const FilterShape& shape) {
  return std::count(counters.begin(), counters.begin() + shape.counters(), uint8_t{0});
}

void KeyFilter::forget(int64_t /*iteration*/) {
  synchronize();
  for (int64_t own = 0; own < own_parts(); ++own) {
    std::vector<uint8_t> counters = part(own);
    if (2 * zeros_of(counters, shape_) >= shape_.counters()) continue;
    while (2 * zeros_of(counters, shape_) < shape_.counters())
      for (uint8_t& counter : counters) counter /= 2;
    put_bytes(place_.exec, ref_.counters + own * ref_.part_bytes, counters.data(), counters.size());
  }
}

// A counter of a slice is zero with a probability of exp(-keys / slice).
int64_t KeyFilter::size() {
  synchronize();
  double keys = 0;
  for (int64_t own = 0; own < own_parts(); ++own) {
    const auto zeros = static_cast<double>(zeros_of(part(own), shape_)),
               all = static_cast<double>(shape_.counters());
    keys -= shape_.slice * std::log(std::max(zeros, 0.5) / all);
  }
  return std::llround(keys);
}

void KeyFilter::for_each_piece(
    int64_t first, int64_t count,
    const std::function<void(int64_t, int64_t, int64_t, int64_t)>& use) const {
  const int64_t words = ref_.part_bytes / 4;
  for (int64_t at = first; at < first + count;) {
    const int64_t part = at / words, end = std::min(first + count, (part + 1) * words);
    use(part, at % words * 4, at - first, end - at);
    at = end;
  }
}

std::vector<float> KeyFilter::own_words(int64_t first, int64_t count) const {
  std::vector<float> words;
  for_each_piece(first, count, [&](int64_t part, int64_t byte, int64_t, int64_t n) {
    if (part % place_.ranks != place_.rank) return;
    words.resize(words.size() + static_cast<size_t>(n));
    get_bytes(place_.exec, words.data() + (std::ssize(words) - n),
              ref_.counters + part / place_.ranks * ref_.part_bytes + byte,
              static_cast<size_t>(n) * 4);
  });
  return words;
}

std::vector<TensorRef> KeyFilter::tensors(const comm::RankContext& ranks) {
  synchronize();
  TensorRef tensor{.name = filter_name(spec_.name),
                   .shape = {int64_t{kKeyParts}, ref_.part_bytes / 4},
                   .dtype = DType::kU32};
  tensor.part = [this](int64_t first, int64_t count) { return own_words(first, count); };
  tensor.join = [this](int64_t first, std::span<const float> parts, std::span<float> out) {
    const float* from = parts.data();
    for (int rank = 0; rank < place_.ranks; ++rank)
      for_each_piece(first, std::ssize(out), [&](int64_t part, int64_t, int64_t at, int64_t n) {
        if (part % place_.ranks != rank) return;
        std::memcpy(out.data() + at, from, static_cast<size_t>(n) * 4);
        from += n;
      });
  };
  comm::gather_parts(ranks, tensor);
  tensor.put = [this](int64_t first, std::span<const float> in) {
    for_each_piece(first, std::ssize(in), [&](int64_t part, int64_t byte, int64_t at, int64_t n) {
      if (part % place_.ranks == place_.rank)
        put_bytes(place_.exec, ref_.counters + part / place_.ranks * ref_.part_bytes + byte,
                  in.data() + at, static_cast<size_t>(n) * 4);
    });
  };
  return {std::move(tensor)};
}

void KeyFilter::read(const WordsOf& words_of,
                     const std::function<bool(int64_t table, uint32_t key)>& owns) {
  clear();
  std::vector<std::vector<FilterEntry>> of_part(static_cast<size_t>(own_parts()));
  for (const CountedKey& of : read_candidates(spec_, words_of, owns))
    of_part[key_part(mix(of.key)) / static_cast<uint32_t>(place_.ranks)].push_back(
        {of.key, std::min(of.use.count, kMaxFilterCount)});
  for (int64_t own = 0; own < own_parts(); ++own) {
    const auto& entries = of_part[static_cast<size_t>(own)];
    if (entries.empty()) continue;
    std::vector<uint8_t> counters = part(own);
    for (const FilterEntry& entry : entries) raise(counters.data(), entry);
    put_bytes(place_.exec, ref_.counters + own * ref_.part_bytes, counters.data(), counters.size());
  }
}

}  // namespace hlite::embedding
