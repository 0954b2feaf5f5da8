// What an ExchangedTables keeps in files: rows by table and key, wherever they lie.
#include <algorithm>
#include <cstring>

#include "embedding/exchanged_tables.h"

namespace hlite::embedding {
namespace {

// Where exchanges beside a plan run.
struct OneThread {
  ThreadPool pool{1};
  operator Exec() { return {.pool = &pool}; }  // NOLINT: implicit on purpose
};

// The part of row `row` of a [rows, width] array that lies in elements [first, first + count):
// columns [begin, end).
struct RowPart {
  int64_t begin, end;
};
RowPart part_of_row(int64_t row, int64_t width, int64_t first, int64_t count) {
  return {std::max<int64_t>(0, first - row * width), std::min(width, first + count - row * width)};
}

}  // namespace

// The rows of a slot's table in a file.
int64_t ExchangedTables::file_rows(const Keys& keys, int64_t slot) const {
  const auto s = static_cast<size_t>(slot);
  return keys ? std::ssize((*keys)[s]) : spec_.layout.rows[s];
}

std::vector<NamedRows> ExchangedTables::named(const Part& part, int state, const Keys& keys) const {
  std::vector<NamedRows> list;
  for (int64_t s = 0; s < spec_.layout.slots(); ++s)
    list.push_back(
        {.name = state < 0 ? table_name(spec_.name, s)
                           : state_name(spec_.name, s, spec_.rule.type, state),
         .rows = file_rows(keys, s),
         .width = spec_.layout.width,
         .get = [this, part, keys, s](
                    int64_t first, std::span<float> out) { get_rows(part, keys, s, first, out); },
         .put = [this, part, keys, s](
                    int64_t first,
                    std::span<const float> in) { put_rows(part, keys, s, first, in); }});
  return list;
}

std::vector<NamedRows> ExchangedTables::tables() const {
  const Keys keys = all_keys();
  std::vector<NamedRows> list = named(table_, -1, keys);
  for (int64_t s = 0; keys && s < spec_.layout.slots(); ++s)
    list.push_back({.name = keys_name(spec_.name, s),
                    .rows = file_rows(keys, s),
                    .get =
                        [keys, s](int64_t first, std::span<float> out) {
                          std::memcpy(out.data(), (*keys)[static_cast<size_t>(s)].data() + first,
                                      out.size_bytes());
                        },
                    // make_room() has seen them.
                    .put = [](int64_t, std::span<const float>) {}});
  return list;
}

std::vector<NamedRows> ExchangedTables::states() const {
  const Keys keys = states_.empty() ? nullptr : all_keys();
  std::vector<NamedRows> list;
  for (size_t i = 0; i < states_.size(); ++i)
    for (NamedRows& rows : named(states_[i], static_cast<int>(i), keys))
      list.push_back(std::move(rows));
  return list;
}

// The keys that any rank holds, ascending in each slot: the same on all ranks.
ExchangedTables::Keys ExchangedTables::all_keys() const {
  if (!hashed_) return nullptr;
  auto all = std::make_shared<std::vector<std::vector<uint32_t>>>(hashed_->keys());
  if (ranks_.ranks() == 1) return all;
  const auto slots = static_cast<size_t>(spec_.layout.slots());
  std::vector<uint32_t> mine(slots);  // counts, then keys
  for (size_t s = 0; s < slots; ++s) {
    mine[s] = static_cast<uint32_t>((*all)[s].size());
    mine.insert(mine.end(), (*all)[s].begin(), (*all)[s].end());
  }
  OneThread exec;
  const size_t own = mine.size();
  std::vector<size_t> sizes(static_cast<size_t>(ranks_.ranks()));
  ranks_.world->all_gather(exec, std::as_bytes(std::span(&own, 1)),
                           std::as_writable_bytes(std::span(sizes)));
  const size_t most = *std::max_element(sizes.begin(), sizes.end());
  mine.resize(most);
  std::vector<uint32_t> of_ranks(sizes.size() * most);
  ranks_.world->all_gather(exec, std::as_bytes(std::span(mine)),
                           std::as_writable_bytes(std::span(of_ranks)));
  for (auto& keys : *all) keys.clear();
  for (size_t q = 0; q < sizes.size(); ++q) {
    const uint32_t* words = of_ranks.data() + q * most;
    const uint32_t* at = words + slots;
    for (size_t s = 0; s < slots; at += words[s], ++s)
      (*all)[s].insert((*all)[s].end(), at, at + words[s]);
  }
  for (auto& keys : *all) std::sort(keys.begin(), keys.end());
  return all;
}

void ExchangedTables::make_room(
    const std::function<std::vector<uint32_t>(const std::string&)>& keys_of) {
  if (!hashed_) return;
  hashed_->clear();
  for (int64_t s = 0; s < spec_.layout.slots(); ++s)
    for (const uint32_t key : keys_of(table_name(spec_.name, s)))
      if (placement_->locate(s, key).rank == ranks_.rank)
        hashed_->insert(s, key, [this](auto... row) { first_values(row...); });
}

// Where row `row` of a slot's table in a file lies. Of a rank that holds it alone does its own row
// say anything.
RowPlace ExchangedTables::place_of(const Keys& keys, int64_t slot, int64_t row) const {
  const auto key = keys ? (*keys)[static_cast<size_t>(slot)][static_cast<size_t>(row)]
                        : static_cast<uint32_t>(row);
  RowPlace place = placement_->locate(slot, key);
  if (hashed_ && place.rank == ranks_.rank)
    place.row = static_cast<uint32_t>(hashed_->find(slot, key));
  return place;
}

// Every rank sends rank 0 what it holds of the range, in the order of keys; rank 0 deals it out by
// asking the placement the same questions.
void ExchangedTables::get_rows(const Part& part, const Keys& keys, int64_t slot, int64_t first,
                               std::span<float> out) const {
  const int64_t width = spec_.layout.width, count = std::ssize(out);
  const int64_t begin = first / width, end = (first + count + width - 1) / width;
  const auto for_each = [&](auto&& body) {  // (place, columns, where in the range)
    for (int64_t row = begin; row < end; ++row) {
      const RowPart columns = part_of_row(row, width, first, count);
      body(place_of(keys, slot, row), columns, row * width + columns.begin - first);
    }
  };
  const auto n = static_cast<size_t>(ranks_.ranks());
  std::vector<float> mine;
  std::vector<size_t> values(n, 0);  // of each rank, as all ranks know
  for_each([&](const RowPlace& place, const RowPart& columns, int64_t) {
    if (place.rank < 0) return;
    values[static_cast<size_t>(place.rank)] += static_cast<size_t>(columns.end - columns.begin);
    if (place.rank != ranks_.rank) return;
    const float* from = own(part).row(place.row);
    mine.insert(mine.end(), from + columns.begin, from + columns.end);
  });
  const size_t most = *std::max_element(values.begin(), values.end());
  mine.resize(most);
  std::vector<float> of_ranks(ranks_.rank == 0 ? n * most : 0);
  if (n == 1)
    of_ranks = std::move(mine);
  else
    ranks_.world->gather(OneThread(), std::as_bytes(std::span(mine)),
                         std::as_writable_bytes(std::span(of_ranks)), 0);
  if (ranks_.rank != 0) return;
  std::vector<size_t> next(n);
  for (size_t q = 0; q < n; ++q) next[q] = q * most;
  for_each([&](const RowPlace& place, const RowPart& columns, int64_t at) {
    const int64_t size = columns.end - columns.begin;
    const float* from = nullptr;
    if (place.rank < 0) {
      from = copied(part).row(place.row) + columns.begin;
    } else {
      size_t& of_rank = next[static_cast<size_t>(place.rank)];
      from = of_ranks.data() + of_rank;
      of_rank += static_cast<size_t>(size);
    }
    std::copy_n(from, size, out.data() + at);
  });
}

void ExchangedTables::put_rows(const Part& part, const Keys& keys, int64_t slot, int64_t first,
                               std::span<const float> in) const {
  const int64_t width = spec_.layout.width, count = std::ssize(in);
  for (int64_t row = first / width; row * width < first + count; ++row) {
    const RowPlace place = place_of(keys, slot, row);
    if (place.rank >= 0 && place.rank != ranks_.rank) continue;
    const RowPart columns = part_of_row(row, width, first, count);
    float* to = (place.rank < 0 ? copied(part) : own(part)).row(place.row);
    std::copy(in.begin() + (row * width + columns.begin - first),
              in.begin() + (row * width + columns.end - first), to + columns.begin);
  }
}

}  // namespace hlite::embedding
