#include "embedding/hashed_index.h"

#include <map>
#include <set>

#include "embedding/sparse_update.h"
#include "hugectr_lite/core/error.h"
#include "tests/embedding/hashed_case.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using embedding::KeyIndex;
using embedding::kUnseen;
using embedding::table_key;

// (slot, key) -> row.
using Rows = std::map<std::pair<int64_t, uint32_t>, uint32_t>;

// What find_rows() owes; a training batch also numbers its new keys.
std::vector<uint32_t> rows_by_definition(const HashedCase& c, Rows& rows,
                                         const std::vector<uint32_t>& keys, bool training) {
  const auto slot_of = [&](size_t i) {
    return c.layout().keys.slot_of(static_cast<int64_t>(i) % c.columns()) - 1;
  };
  const auto table_of = [&](size_t i) {
    return c.layout().table_of[static_cast<size_t>(slot_of(i))];
  };
  const auto ours = [&](size_t i) { return slot_of(i) >= 0 && slot_of(i) < c.layout().slots(); };
  std::set<std::pair<int64_t, uint32_t>> in_order;
  for (size_t i = 0; i < keys.size(); ++i)
    if (ours(i) && keys[i] != kNoKey) in_order.emplace(table_of(i), keys[i]);
  if (training)
    for (const auto& key : in_order) rows.emplace(key, static_cast<uint32_t>(rows.size()));
  std::vector<uint32_t> want;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto at = ours(i) ? rows.find({table_of(i), keys[i]}) : rows.end();
    want.push_back(!ours(i)            ? 0
                   : keys[i] == kNoKey ? kNoKey
                   : at == rows.end()  ? kUnseen
                                       : at->second);
  }
  return want;
}

struct Shape {
  std::vector<int64_t> hotness, tables;
};

}  // namespace

TEST_CASE("new keys get rows by table and key, batch after batch; evaluation takes none",
          "[threads]") {
  for (const int threads : {1, 2, 3})
    for (const auto& [hotness, tables] : {Shape{{1, 1, 1}, {}}, Shape{{3, 1, 5}, {}},
                                          Shape{{1}, {}}, Shape{{3, 1, 5, 1}, {0, 1, 1, 0}}}) {
      ThreadPool pool(threads);
      HashedCase c({.pool = &pool}, hotness, 3, 5000, embedding::Combiner::kSum, tables);
      Rows rows;
      for (uint64_t round = 0; round < 12; ++round) {
        const int64_t batch = round % 4 == 3 ? 0 : 1 + static_cast<int64_t>(round * 7 % 64);
        const bool training = round % 3 != 2;
        const auto keys = c.draw(batch, 400, round);
        CHECK(c.find_rows(keys, training) == rows_by_definition(c, rows, keys, training));
      }
      const std::vector<uint64_t> keys = c.index.keys();
      REQUIRE(keys.size() == rows.size());
      for (const auto& [key, row] : rows) {
        CHECK(keys[row] == table_key(key.first, key.second));
        CHECK(c.index.find(key.first, key.second) == row);
        std::vector<float> first(3);
        c.storage().initial_values(key.first, key.second, first.data());
        CHECK(std::equal(first.begin(), first.end(), c.storage().own().w.as<float>().row(row)));
        CHECK(c.storage().own().state0.row(row)[2] == 0.25f);
      }
      c.index.clear();
      CHECK(c.index.keys().empty());
      CHECK(c.index.find(0, keys.empty() ? 0 : static_cast<uint32_t>(keys[0])) ==
            KeyIndex::kAbsent);
    }
}

TEST_CASE("a slot's key is another key than the same number in another slot") {
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, {1, 1, 1}, 1, 10);
  CHECK(c.take_list({{0, 7}, {2, 7}, {0, 7}}, true).rows == std::vector<uint32_t>{0, 1, 0});
  CHECK(c.index.find(1, 7) == KeyIndex::kAbsent);
}

TEST_CASE("a full table names layer, key, slot and size") {
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, {1, 1}, 2, 3);
  const std::vector<uint32_t> few = {0, 0, 5, kNoKey, 0, 0, 0, 5, 8, 0},
                              more = {0, 0, 8, 70, 0, 0, 0, 5, 60, 0};
  (void)c.find_rows(few, true);
  check_contains(
      message_of<DataError>([&] { (void)c.find_rows(more, true); }),
      {"emb", "is full", "key 60 of table 1", "all 3 rows", "raise max_vocabulary_size_per_gpu"});
}

TEST_CASE("keys without a row have their initial values in a lookup", "[threads]") {
  ThreadPool pool(2);
  for (const auto combiner : {embedding::Combiner::kSum, embedding::Combiner::kMean}) {
    HashedCase c({.pool = &pool}, {1, 4, 2}, 5, 5000, combiner);
    const auto trained = c.draw(30, 60, 1), seen = c.draw(40, 120, 2);
    (void)c.find_rows(trained, true);
    const std::vector<float> before = c.look_up(seen);
    CHECK(c.index.keys().size() < 200);
    // As if training had met them.
    (void)c.find_rows(seen, true);
    CHECK(c.look_up(seen) == before);
  }
}

TEST_CASE("lookups and updates of hashed rows have the bits of full tables", "[threads]") {
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  const int64_t width = 5, batch = 50;
  for (const auto combiner : {embedding::Combiner::kSum, embedding::Combiner::kMean}) {
    for (const auto& tables : {std::vector<int64_t>{0, 1, 2}, {0, 1, 0}}) {
      HashedCase c(exec, {3, 1, 6}, width, 1000, combiner, tables);
      embedding::SlotLayout full = c.layout();
      full = {{100, 100, 100}, width, full.keys, combiner, full.first_slot, tables};
      const int64_t count = full.tables(), all = full.total_rows;
      std::vector<uint32_t> keys = c.draw(batch, 100, 8);
      for (uint32_t& key : keys) key = key == kNoKey ? key : key % 100;
      const auto rows = c.find_rows(keys, true);
      std::vector<float> table(static_cast<size_t>(all * width)), states(table.size(), 0.25f),
          dout(static_cast<size_t>(batch * 3 * width));
      for (int64_t s = 0; s < count; ++s)
        for (uint32_t key = 0; key < 100; ++key)
          c.storage().initial_values(s, key, table.data() + (s * 100 + key) * width);
      fill_random(dout, 3);
      // Looked up, then updated by what was looked up, on either.
      const auto step = [&](const embedding::SlotLayout& layout, const std::vector<uint32_t>& by,
                            const embedding::UpdatedRows& of) {
        const embedding::DeviceSlots slots(exec, layout);
        const Matrix<const uint32_t> matrix(by.data(), batch, c.columns());
        std::vector<float> out(dout.size());
        embedding::lookup_forward<float>(exec, slots.ref(), of.w, matrix,
                                         {out.data(), batch, 3, width});
        embedding::SparseUpdate update(exec, slots.ref(),
                                       {.rule = {.type = optimizer::OptimizerType::kAdaGrad},
                                        .max_batch = batch,
                                        .threads = 2});
        const float rate = 0.1f;
        const int64_t first = 1;
        optimizer::StepScalars scalars;
        update.sort(exec, matrix, &rate, &first, &scalars);
        update.update<float>(exec, {dout.data(), batch, 3, width}, of);
        return out;
      };
      CHECK(step(c.layout().pooled(1000), rows, c.storage().own()) ==
            step(full, keys, {{table.data(), all, width}, {states.data(), all, width}, {}}));
      bool same = true;
      for (int64_t s = 0; s < count; ++s)
        for (uint32_t key = 0; key < 100; ++key) {
          const int64_t row = c.index.find(s, key);
          if (row == KeyIndex::kAbsent) continue;
          const auto at = static_cast<size_t>((s * 100 + key) * width);
          same &= std::equal(c.storage().own().w.as<float>().row(row),
                             c.storage().own().w.as<float>().row(row) + width,
                             table.begin() + static_cast<std::ptrdiff_t>(at));
          same &= c.storage().own().state0.row(row)[width - 1] == states[at + width - 1];
        }
      CHECK(same);
    }
  }
}

TEST_CASE("assigned keys have the rows of their order and initial values") {
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, {1, 1}, 2, 4);
  (void)c.take_list({{1, 9}}, true);
  c.index.assign({table_key(0, 4), table_key(1, 4), table_key(1, 0xfffffffe)});
  CHECK(c.index.find(1, 9) == KeyIndex::kAbsent);
  CHECK(c.index.find(1, 0xfffffffe) == 2);
  std::vector<float> first(2);
  c.storage().initial_values(1, 4, first.data());
  CHECK(first[1] == c.storage().own().w.as<float>().row(1)[1]);
  CHECK_THROWS_AS(c.index.assign(std::vector<uint64_t>(5)), DataError);
}

}  // namespace hlite::test
