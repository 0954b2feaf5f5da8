#include "embedding/key_counter.h"

#include <bit>

#include "embedding/cutter.h"

namespace hlite::embedding {
namespace {

constexpr unsigned long long kEmpty = ~0ull;
constexpr uint32_t kHasRow = ~0u;  // in the place of a count, on the CPU

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

}  // namespace

KeyCounter::KeyCounter(std::string name, const Exec& exec, int64_t capacity, int64_t most_keys,
                       int64_t rows)
    : name_(std::move(name)),
      exec_(exec),
      capacity_(capacity),
      most_keys_(most_keys),
      rows_(rows) {}

int64_t KeyCounter::bytes() const {
  if (!exec_.on_gpu())
    return KeyIndex::bytes(slots()) + slots() * static_cast<int64_t>(sizeof(RowUse));
  size_t bytes = 0;
  (void)cut_counts(capacity_, slots(), nullptr, &bytes);
  return static_cast<int64_t>(bytes);
}

void KeyCounter::allocate() {
  if (!exec_.on_gpu()) {
    index_ = std::make_unique<KeyIndex>(name_, slots());
    uses_.reserve(static_cast<size_t>(slots()));
    return;
  }
  size_t bytes = 0;
  (void)cut_counts(capacity_, slots(), nullptr, &bytes);
  memory_ = ExecMemory(exec_, bytes, "counts of keys");
  counts_ = cut_counts(capacity_, slots(), memory_.data(), &bytes);
  clear();
}

void KeyCounter::clear() { assign({}); }

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

void KeyCounter::has_row() {
  uses_[counted_].count = kHasRow;
  ++with_row_;
}

void KeyCounter::drop(FunctionRef<bool(const RowUse&)> gone) {
  std::vector<uint32_t> places;
  for (size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i].count == kHasRow || gone(uses_[i])) places.push_back(static_cast<uint32_t>(i));
  const RowMoves moves = closing_moves(std::ssize(uses_), places);
  index_->close_up(moves, places);
  for (size_t i = 0; i < moves.from.size(); ++i) uses_[moves.to[i]] = uses_[moves.from[i]];
  uses_.resize(uses_.size() - places.size());
  with_row_ = 0;
}

int64_t KeyCounter::size() const {
  if (!exec_.on_gpu()) return index_->size() - with_row_;
  KeyCounts::State state;
  get_bytes(exec_, &state, counts_.state, sizeof(state));
  return state.size;
}

std::vector<CountedKey> KeyCounter::entries() const {
  std::vector<CountedKey> entries;
  if (!exec_.on_gpu()) {
    for (size_t i = 0; i < uses_.size(); ++i)
      if (uses_[i].count != kHasRow) entries.push_back({index_->keys()[i], uses_[i]});
  } else {
    const auto places = static_cast<size_t>(KeyIndex::places(slots()));
    std::vector<unsigned long long> keys(places);
    std::vector<RowUse> uses(places);
    get_bytes(exec_, keys.data(), counts_.keys, places * sizeof(keys[0]));
    get_bytes(exec_, uses.data(), counts_.uses, places * sizeof(uses[0]));
    for (size_t i = 0; i < places; ++i)
      if (keys[i] != kEmpty) entries.push_back({keys[i], uses[i]});
  }
  return entries;
}

// Places of a GPU's table are taken in the order of the entries, on the host.
void KeyCounter::assign(const std::vector<CountedKey>& entries) {
  HLITE_CHECK(std::ssize(entries) <= slots(), "{}: {} counted keys, at most {}", name_,
              entries.size(), slots());
  if (!exec_.on_gpu()) {
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
  put_bytes(exec_, counts_.keys, keys.data(), places * sizeof(keys[0]));
  put_bytes(exec_, counts_.uses, uses.data(), places * sizeof(uses[0]));
  put_bytes(exec_, counts_.state, &state, sizeof(state));
}

}  // namespace hlite::embedding
