#include "hugectr_lite/preparation/engine/one_pass.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/mix.h"

namespace hlite::prep {

namespace {

constexpr int64_t kStoredRows = 4096;
constexpr int kMaxLanes = 4;

std::span<const std::byte> bytes_of_words(const uint32_t* data, int64_t count) {
  return std::as_bytes(std::span(data, static_cast<size_t>(count)));
}

RowShape shape_of(const RowLayout& layout) {
  return {.dense = layout.dense, .slots = layout.slots};
}

using RowWords = uint32_t __attribute__((vector_size(32)));
constexpr int kBlockRows = sizeof(RowWords) / sizeof(uint32_t);

// Columns of 8 words, `stride` bytes apart, to parts of 8 rows.
void transpose_block(const std::byte* from, size_t stride, uint32_t* to, int64_t words) {
  RowWords a[kBlockRows], b[kBlockRows];
  for (int i = 0; i < kBlockRows; ++i)
    std::memcpy(&a[i], from + static_cast<size_t>(i) * stride, sizeof(RowWords));
  for (int i = 0; i < kBlockRows; i += 2) {  // pairs of columns
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < kBlockRows; i += 4) {  // fours: of rows 0 and 4, 1 and 5, ...
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 2 * j + 1] =
          __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < kBlockRows / 2; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < kBlockRows; ++i) std::memcpy(to + i * words, &b[i], sizeof(RowWords));
}

// Columns to rows.
void put_rows(const ParsedRows& from, int columns, uint32_t* out) {
  const int64_t whole_rows = from.rows / kBlockRows * kBlockRows;
  const int whole_columns = columns / kBlockRows * kBlockRows;
  for (int64_t row = 0; row < whole_rows; row += kBlockRows)
    for (int c = 0; c < whole_columns; c += kBlockRows)
      transpose_block(reinterpret_cast<const std::byte*>(from.values(c) + row), from.stride,
                      out + row * columns + c, columns);
  for (int c = 0; c < columns; ++c)
    for (int64_t row = c < whole_columns ? whole_rows : 0; row < from.rows; ++row)
      out[row * columns + c] = from.values(c)[row];
}

}  // namespace

OnePass::OnePass(const NumberingRecipe& recipe, const RowParser& parser, OnePassFiles files,
                 int64_t memory_bytes, ThreadPool& pool, int64_t rows, const OnePassState& state,
                 const std::function<void(std::string_view)>& at_point)
    : recipe_(recipe),
      files_(std::move(files)),
      layout_(parser.layout()),
      row_bytes_(4 * layout_.columns()),
      budget_(memory_bytes),
      rows_(files_.rows, (files_.result.empty() ? rows : rows - state.train_rows) * row_bytes_),
      at_point_(at_point),
      train_rows_(state.train_rows),
      positives_(state.positives) {
  const auto slots = static_cast<size_t>(layout_.slots);
  const bool resumed = rows > 0;
  zeros_ = resumed ? state.zeros : std::vector<int64_t>(slots);
  for (size_t s = 0; s < slots; ++s) {
    Slot& slot = slots_.emplace_back(budget_, recipe_.key_limit, files_.keys[s],
                                     resumed ? state.keys[s] : 0);
    if (resumed) {
      slot.known = state.known[s];
    } else if (recipe_.known_keys) {
      const auto number = static_cast<int>(s);
      slot.known = number_known_keys(recipe_, number, parser.slot_name(number), slot.dictionary,
                                     &slot.added);
      note(slot, 0);
    }
  }
  pool.run(layout_.slots, [&](int64_t s, int) {
    Slot& slot = slots_[static_cast<size_t>(s)];
    add_stored(slot);
    grow_to(slot.counts, recipe_.hash_range > 0 ? static_cast<int64_t>(recipe_.hash_range)
                                                : slot.dictionary.size());
  });
  const auto lanes = std::min({static_cast<size_t>(pool.threads()), size_t{kMaxLanes}, slots});
  for (size_t lane = 0; lane < lanes; ++lane) {
    lanes_.emplace_back();
    lanes_.back().first = slots * lane / lanes;
    lanes_.back().last = slots * (lane + 1) / lanes;
  }
  if (!files_.result.empty())
    result_ =
        std::make_unique<OutputFile>(files_.result_name, files_.result, train_rows_ * row_bytes_);
  count_stored(pool);
}

// The keys of an earlier run.
void OnePass::add_stored(Slot& slot) {
  std::vector<uint32_t> keys(kStoredRows), ids(kStoredRows);
  for (int64_t at = 0; at < slot.stored; at += kStoredRows) {
    const auto count = static_cast<size_t>(std::min(kStoredRows, slot.stored - at));
    slot.keys.read(at * 4, std::as_writable_bytes(std::span(keys).first(count)));
    slot.dictionary.number(keys.data(), count, ids.data());
    for (size_t i = 0; i < count; ++i) slot.vocabulary += vocabulary_term(keys[i], ids[i]);
  }
}

// Keys that were added after the first ones.
void OnePass::note(Slot& slot, size_t before) const {
  auto id = static_cast<uint32_t>(slot.stored) + static_cast<uint32_t>(before);
  for (size_t i = before; i < slot.added.size(); ++i)
    slot.vocabulary += vocabulary_term(slot.added[i], id++);
}

// The ids of the training rows of an earlier run.
void OnePass::count_stored(ThreadPool& pool) {
  if (train_rows_ == 0) return;
  const StoredRows rows(shape_of(layout_), result_ ? files_.result : files_.rows, 0, train_rows_);
  const int64_t width = layout_.columns();
  std::vector<uint32_t> words(static_cast<size_t>(kStoredRows * width));
  for (int64_t at = 0; at < train_rows_; at += kStoredRows) {
    const int64_t count = std::min(kStoredRows, train_rows_ - at);
    rows.read(at, count, words.data());
    if (result_) result_->repeat(bytes_of_words(words.data(), count * width));
    pool.run(std::ssize(lanes_), [&](int64_t lane, int) {
      std::vector<uint32_t> ids(static_cast<size_t>(count));
      const Lane& own = lanes_[static_cast<size_t>(lane)];
      for (size_t s = own.first; s < own.last; ++s) {
        const uint32_t* from = words.data() + static_cast<size_t>(layout_.first_key()) + s;
        for (int64_t row = 0; row < count; ++row) ids[static_cast<size_t>(row)] = from[row * width];
        count_ids(ids.data(), ids.size(), slots_[s].counts);
      }
    });
  }
}

void OnePass::number(Slot& slot, uint32_t* keys, size_t count, bool train) {
  if (recipe_.hash_range > 0) {
    for (size_t i = 0; i < count; ++i) keys[i] = hashed_id(keys[i], recipe_.hash_range);
  } else {
    const size_t before = slot.added.size();
    slot.dictionary.number(keys, count, keys, &slot.added);
    note(slot, before);
    grow_to(slot.counts, slot.dictionary.size());
  }
  if (train) count_ids(keys, count, slot.counts);
}

void OnePass::take(int lane, PlacedRows& rows) {
  if (rows.parsed.rows == 0) return;
  Lane& own = lanes_[static_cast<size_t>(lane)];
  const std::lock_guard lock(own.mutex);
  for (size_t s = own.first; s < own.last; ++s) {
    uint32_t* const keys = rows.parsed.values(layout_.first_key() + static_cast<int>(s));
    if (!rows.is_train) rows.zeros[s] = std::count(keys, keys + rows.parsed.rows, 0u);
    number(slots_[s], keys, static_cast<size_t>(rows.parsed.rows), rows.is_train);
  }
}

void OnePass::write(PlacedRows& rows) {
  if (at_point_) at_point_("rows");
  rows.encoded.resize(static_cast<size_t>(rows.parsed.rows * row_bytes_));
  put_rows(rows.parsed, layout_.columns(), reinterpret_cast<uint32_t*>(rows.encoded.data()));
  if (result_ && rows.is_train) return;
  const int64_t row = result_ ? rows.first - rows.train : rows.first;
  rows_.write(row * row_bytes_, rows.encoded);
}

void OnePass::append(PlacedRows& rows) {
  if (!rows.is_train) {
    for (size_t s = 0; s < zeros_.size(); ++s) zeros_[s] += rows.zeros[s];
    return;
  }
  if (rows.parsed.rows == 0) return;
  if (result_) result_->write(rows.encoded);
  const auto* labels = rows.parsed.values(0);
  train_rows_ += rows.parsed.rows;
  positives_ += std::count(labels, labels + rows.parsed.rows, 1u);
}

OnePassState OnePass::save() {
  if (result_) result_->save();
  OnePassState state{.zeros = zeros_, .train_rows = train_rows_, .positives = positives_};
  for (Lane& lane : lanes_) {
    const std::lock_guard lock(lane.mutex);
    for (size_t s = lane.first; s < lane.last; ++s) {
      Slot& slot = slots_[s];
      slot.keys.write(slot.stored * 4, bytes_of_words(slot.added.data(), std::ssize(slot.added)));
      slot.stored += std::ssize(slot.added);
      slot.added.clear();
      state.keys.push_back(slot.stored);
      state.known.push_back(slot.known);
      state.zero_ids.push_back(recipe_.hash_range > 0 ? 0 : slot.dictionary.find(0));
    }
  }
  return state;
}

data::ManifestColumn OnePass::finish(int number, const std::string& counts_path) {
  Slot& slot = slots_[static_cast<size_t>(number)];
  const bool hashed = recipe_.hash_range > 0;
  const int64_t size = hashed ? static_cast<int64_t>(recipe_.hash_range) : slot.dictionary.size();
  PlacedFile(counts_path, 0).write(0, bytes_of_words(slot.counts.data(), size));
  data::ManifestColumn column = column_statistics(train_rows_, slot.counts.data(), size);
  column.vocabulary = hashed ? hashed_vocabulary(recipe_) : vocabulary_digits(slot.vocabulary);
  return column;
}

void StoredRows::read(int64_t first, int64_t count, uint32_t* out) const {
  const auto words = static_cast<size_t>(count * shape_.words());
  file_.read((first_ + first) * shape_.words() * 4, std::as_writable_bytes(std::span(out, words)));
}

std::vector<data::SplitValues> split_values(const RowSource& rows, const std::string& role,
                                            const OnePassState& state, bool hashed,
                                            const std::vector<std::string>& counts_paths,
                                            ThreadPool& pool) {
  const RowShape& shape = rows.shape();
  const size_t slots = counts_paths.size();
  std::vector<std::vector<uint32_t>> counts;
  for (const std::string& path : counts_paths) {
    const ReadFile file(path);
    counts.emplace_back(static_cast<size_t>(file.size() / 4));
    file.read(0, std::as_writable_bytes(std::span(counts.back())));
  }
  std::vector<data::SplitValues> values(slots, {.role = role});
  std::mutex mutex;
  pool.run((rows.rows() + kStoredRows - 1) / kStoredRows, [&](int64_t chunk, int) {
    const int64_t first = chunk * kStoredRows, count = std::min(kStoredRows, rows.rows() - first);
    std::vector<uint32_t> words(static_cast<size_t>(count * shape.words()));
    rows.read(first, count, words.data());
    for (size_t s = 0; s < slots; ++s) {
      int64_t missing = 0, unknown = 0;
      for (size_t at = 1 + static_cast<size_t>(shape.dense) + s; at < words.size();
           at += static_cast<size_t>(shape.words())) {
        const uint32_t id = words[at];
        const bool zero = !hashed && id == state.zero_ids[s];
        missing += zero;
        unknown += !zero && id >= state.known[s] && counts[s][id] == 0;
      }
      const std::lock_guard lock(mutex);
      values[s].missing += missing;
      values[s].unknown += unknown;
    }
  });
  for (size_t s = 0; s < slots && hashed; ++s) {
    // Other keys share the id of key 0, but how many rows have that is known.
    values[s].missing = state.zeros[s];
    if (counts[s][0] == 0) values[s].unknown -= state.zeros[s];
  }
  return values;
}

}  // namespace hlite::prep
