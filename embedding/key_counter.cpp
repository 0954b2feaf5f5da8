#include "embedding/key_counter.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "embedding/cutter.h"
#include "embedding/eviction.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

constexpr unsigned long long kEmpty = ~0ull;
constexpr uint32_t kHasRow = ~0u;  // in the place of a count, on the CPU
constexpr size_t kCandidateWords = 3;

KeyCounts cut_counts(int64_t capacity, int64_t slots, std::byte* memory, size_t* bytes) {
  const int64_t places = KeyIndex::places(slots);
  Cutter cutter(memory);
  KeyCounts counts;
  counts.keys = cutter.cut<unsigned long long>(places);
  counts.uses = cutter.cut<RowUse>(places);
  counts.state = cutter.cut<KeyCounts::State>(1);
  counts.shift = 64 - std::countr_zero(static_cast<uint64_t>(places));
  counts.capacity = static_cast<uint32_t>(capacity);
  *bytes = cutter.bytes();
  return counts;
}

// A tensor [n, columns] of uint32 that a file is written from.
TensorRef words_tensor(std::string name, size_t columns, std::vector<uint32_t> words) {
  const auto held = std::make_shared<const std::vector<uint32_t>>(std::move(words));
  return {.name = std::move(name),
          .shape = {static_cast<int64_t>(held->size() / columns), static_cast<int64_t>(columns)},
          .get =
              [held](int64_t first, std::span<float> out) {
                if (!out.empty()) std::memcpy(out.data(), held->data() + first, out.size_bytes());
              },
          .put = [](int64_t, std::span<const float>) {},  // read() has seen them
          .dtype = DType::kU32};
}

}  // namespace

KeyCounter::KeyCounter(const TablesSpec& spec, KeyCounterPlace place)
    : spec_(spec),
      place_(std::move(place)),
      capacity_(spec.vocabulary.admission.capacity > 0 ? spec.vocabulary.admission.capacity
                                                       : place_.rows) {}

int64_t KeyCounter::bytes() const {
  if (!on_gpu()) return KeyIndex::bytes(slots()) + slots() * static_cast<int64_t>(sizeof(RowUse));
  size_t bytes = 0;
  (void)cut_counts(capacity_, slots(), nullptr, &bytes);
  return static_cast<int64_t>(bytes);
}

void KeyCounter::allocate() {
  if (!on_gpu()) {
    index_ = std::make_unique<KeyIndex>(spec_.name, slots());
    uses_.reserve(static_cast<size_t>(slots()));
    return;
  }
  size_t bytes = 0;
  (void)cut_counts(capacity_, slots(), nullptr, &bytes);
  memory_ = ExecMemory(place_.exec, bytes, "counts of keys");
  counts_ = cut_counts(capacity_, slots(), memory_.data(), &bytes);
  clear();
}

uint32_t KeyCounter::count(uint64_t key, uint32_t iteration) {
  if (step_ != iteration) {
    step_ = iteration;
    open_ = index_->size() - with_row_ < capacity_;
  }
  int64_t at = index_->find(key);
  if (at == KeyIndex::kAbsent) {
    if (!open_ || index_->size() == index_->capacity()) return 0;
    at = index_->insert(key);
    uses_.push_back({});
  }
  counted_ = static_cast<size_t>(at);
  RowUse& use = uses_[counted_];
  if (use.last == iteration) return 0;
  use.last = iteration;
  return ++use.count;
}

void KeyCounter::has_row(uint64_t key) {
  HLITE_CHECK(counted_ < uses_.size() && index_->keys()[counted_] == key,
              "{}: key {} has got a row, and was not the last that was counted", spec_.name, key);
  uses_[counted_].count = kHasRow;
  ++with_row_;
}

void KeyCounter::forget(int64_t iteration) {
  if (!on_gpu()) {
    drop_on_cpu(iteration);
    if (size() * 4 <= capacity_ * 3) return;
  }
  const size_t before = on_gpu() ? device_entries().size() : uses_.size();
  const std::vector<CountedKey> kept =
      kept_candidates(spec_.vocabulary, entries(), iteration, capacity_);
  if (kept.size() < before) assign(kept);
}

void KeyCounter::drop_on_cpu(int64_t iteration) {
  std::vector<uint32_t> places;
  for (size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i].count == kHasRow || is_expired(spec_.vocabulary, uses_[i], iteration))
      places.push_back(static_cast<uint32_t>(i));
  const RowMoves moves = closing_moves(std::ssize(uses_), places);
  index_->close_up(moves, places);
  for (size_t i = 0; i < moves.from.size(); ++i) uses_[moves.to[i]] = uses_[moves.from[i]];
  uses_.resize(uses_.size() - places.size());
  with_row_ = 0;
}

int64_t KeyCounter::size() {
  if (!on_gpu()) return index_->size() - with_row_;
  KeyCounts::State state;
  get_bytes(place_.exec, &state, counts_.state, sizeof(state));
  return state.size;
}

// All keys in the table of a GPU, some of which may have got a row.
std::vector<CountedKey> KeyCounter::device_entries() const {
  const auto places = static_cast<size_t>(KeyIndex::places(slots()));
  std::vector<unsigned long long> keys(places);
  std::vector<RowUse> uses(places);
  get_bytes(place_.exec, keys.data(), counts_.keys, places * sizeof(keys[0]));
  get_bytes(place_.exec, uses.data(), counts_.uses, places * sizeof(uses[0]));
  std::vector<CountedKey> entries;
  for (size_t i = 0; i < places; ++i)
    if (keys[i] != kEmpty) entries.push_back({keys[i], uses[i]});
  return entries;
}

std::vector<CountedKey> KeyCounter::entries() const {
  std::vector<CountedKey> entries;
  if (!on_gpu()) {
    for (size_t i = 0; i < uses_.size(); ++i)
      if (uses_[i].count != kHasRow) entries.push_back({index_->keys()[i], uses_[i]});
    return entries;
  }
  entries = device_entries();
  std::vector<uint64_t> with_row = place_.keys_with_row();
  std::sort(with_row.begin(), with_row.end());
  std::erase_if(entries, [&](const CountedKey& of) {
    return std::binary_search(with_row.begin(), with_row.end(), of.key);
  });
  return entries;
}

// Places of a GPU's table are taken in the order of the entries, on the host.
void KeyCounter::assign(const std::vector<CountedKey>& entries) {
  HLITE_CHECK(std::ssize(entries) <= slots(), "{}: {} counted keys, at most {}", spec_.name,
              entries.size(), slots());
  if (!on_gpu()) {
    index_->clear();
    uses_.clear();
    step_ = 0;
    with_row_ = 0;
    for (const CountedKey& entry : entries) {
      index_->insert(entry.key);
      uses_.push_back(entry.use);
    }
    return;
  }
  const auto places = static_cast<size_t>(KeyIndex::places(slots()));
  std::vector<unsigned long long> keys(places, kEmpty);
  std::vector<RowUse> uses(places);
  for (const CountedKey& entry : entries) {
    uint64_t at = home_of(entry.key, counts_.shift);
    while (keys[at] != kEmpty) at = (at + 1) & counts_.mask();
    keys[at] = entry.key;
    uses[at] = entry.use;
  }
  const KeyCounts::State state{.size = static_cast<uint32_t>(entries.size())};
  put_bytes(place_.exec, counts_.keys, keys.data(), places * sizeof(keys[0]));
  put_bytes(place_.exec, counts_.uses, uses.data(), places * sizeof(uses[0]));
  put_bytes(place_.exec, counts_.state, &state, sizeof(state));
}

std::vector<TensorRef> KeyCounter::tensors(const comm::RankContext& ranks) {
  struct Candidate {
    uint64_t key;
    RowUse use;
  };
  std::vector<Candidate> own;
  for (const CountedKey& of : entries()) own.push_back({of.key, of.use});
  auto all = comm::gather_lists(ranks, std::move(own), comm::kEveryRank);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  std::vector<std::vector<uint32_t>> words(static_cast<size_t>(spec_.layout.tables()));
  for (const Candidate& of : all) {
    auto& table = words[static_cast<size_t>(of.key >> 32)];
    table.insert(table.end(), {static_cast<uint32_t>(of.key), of.use.count, of.use.last});
  }
  std::vector<TensorRef> list;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t)
    list.push_back(words_tensor(candidates_name(spec_.name, t), kCandidateWords,
                                std::move(words[static_cast<size_t>(t)])));
  return list;
}

void KeyCounter::read(const WordsOf& words_of,
                      const std::function<bool(int64_t table, uint32_t key)>& owns) {
  std::vector<CountedKey> counted;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t) {
    const auto words = words_of(candidates_name(spec_.name, t)).value_or(std::vector<uint32_t>());
    for (size_t i = 0; i + kCandidateWords <= words.size(); i += kCandidateWords)
      if (owns(t, words[i]))
        counted.push_back({table_key(t, words[i]), {.count = words[i + 1], .last = words[i + 2]}});
  }
  std::sort(counted.begin(), counted.end());
  assign(counted);
}

}  // namespace hlite::embedding
