// Iterations of hashed tables, and their expected results.
#pragma once

#include <bit>
#include <map>
#include <set>
#include <string>

#include "tests/embedding/steps_case.h"
#include "tests/support/errors.h"

namespace hlite::embedding {

// (slot, key) -> row, as rank 0 gets them; collective.
using KeyedRows = std::map<std::pair<int64_t, uint32_t>, std::vector<float>>;
inline KeyedRows keyed_rows_of(const EmbeddingTables& tables) {
  std::map<std::string, std::vector<float>> tensors;
  for (const TensorRef& tensor : tables.tables()) {
    auto& values = tensors[tensor.name];
    values.resize(static_cast<size_t>(tensor.size()));
    tensor.get(0, values);
  }
  KeyedRows rows;
  for (int64_t s = 0; s < 3; ++s) {
    const auto& values = tensors.at(table_name("emb", s));
    size_t at = 0;
    for (const float bits : tensors.at(keys_name("emb", s))) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at++ * kStepWidth);
      rows[{s, std::bit_cast<uint32_t>(bits)}] = {begin, begin + kStepWidth};
    }
  }
  return rows;
}

// After an iteration: the rows of full tables whose keys any rank had.
inline KeyedRows keyed_rows_after(const std::vector<int64_t>& samples) {
  const std::vector<float> all = updated(initial_values(), samples);
  const SlotLayout layout = steps_spec().layout;
  KeyedRows rows;
  for (size_t q = 0; q < samples.size(); ++q)
    for (int64_t i = 0; i < samples[q] * 3; ++i) {
      const uint32_t key = key_of(static_cast<int>(q), i / 3, i % 3);
      const auto begin = all.begin() + place_in(layout, i % 3, key);
      rows[{i % 3, key}] = {begin, begin + kStepWidth};
    }
  return rows;
}

template <typename OnRanks>
void check_hashed_definition(const OnRanks& on_ranks) {
  const auto first = initial_values();
  for (const int ranks : {2, 3, 7})
    for (const KeyOwner by : {KeyOwner::kByKey, KeyOwner::kByTable})
      for (const FloatType wire : {FloatType::kFloat, FloatType::kBf16}) {
        INFO(ranks << " ranks, owner " << static_cast<int>(by) << ", " << float_type_name(wire));
        const auto samples = samples_of(ranks);
        struct Got {
          std::vector<float> evaluated, trained;
        };
        std::vector<Got> got(static_cast<size_t>(ranks));
        std::array<KeyedRows, 2> rows;  // after an evaluation, after training
        on_ranks(ranks, StepsOptions{.wire = wire, .hashed_rows = 17, .owner = by},
                 [&](comm::Communicator& world, StepsOfRank& rank) {
                   const auto q = static_cast<size_t>(world.rank());
                   const auto keep = [&](size_t i) {
                     auto now = keyed_rows_of(rank.tables());
                     if (q == 0) rows[i] = std::move(now);
                   };
                   got[q].evaluated = rank.evaluate(samples[q]);
                   keep(0);
                   got[q].trained = rank.iterate(samples[q]);
                   keep(1);
                 });
        for (int q = 0; q < ranks; ++q) {
          const auto i = static_cast<size_t>(q);
          // Evaluations send floats, whatever the wire of training.
          CHECK((got[i].evaluated == looked_up(first, q, samples[i], FloatType::kFloat)));
          CHECK((got[i].trained == looked_up(first, q, samples[i], wire)));
        }
        CHECK(rows[0].empty());
        CHECK((rows[1] == keyed_rows_after(samples)));
      }
}

// Lists with a capacity of one key: no row is taken, then the capacity is grown.
template <typename OnRanks>
void check_hashed_growth(const OnRanks& on_ranks) {
  constexpr int kRanks = 3;
  std::array<KeyedRows, 2> rows;
  std::array<std::array<bool, 2>, kRanks> capacity_exceeded{};
  on_ranks(kRanks, StepsOptions{.capacity = 1, .hashed_rows = 17},
           [&](comm::Communicator& world, StepsOfRank& rank) {
             const auto q = static_cast<size_t>(world.rank());
             for (size_t i = 0; i < 2; ++i) {
               (void)rank.iterate(kStepBatch);
               capacity_exceeded[q][i] = rank.take_capacity_exceeded();
               auto now = keyed_rows_of(rank.tables());
               if (q == 0) rows[i] = std::move(now);
               if (i == 0) (void)rank.tables().steps().grow();
             }
           });
  CHECK(rows[0].empty());
  CHECK((rows[1] == keyed_rows_after(std::vector<int64_t>(kRanks, kStepBatch))));
  for (const auto& of_rank : capacity_exceeded) CHECK(of_rank == std::array{true, false});
}

// Slot 0 is on rank 0, which has two rows for its keys; slot 1 has one key.
template <typename OnRanks>
void check_full_table(const OnRanks& on_ranks) {
  constexpr int kRanks = 3;
  std::array<bool, kRanks> capacity_exceeded{};
  std::array<std::string, kRanks> words;
  on_ranks(kRanks, StepsOptions{.hashed_rows = 2, .owner = KeyOwner::kByTable},
           [&](comm::Communicator& world, StepsOfRank& rank) {
             const auto q = static_cast<size_t>(world.rank());
             (void)rank.iterate(kStepBatch);
             capacity_exceeded[q] = rank.take_capacity_exceeded();
             try {
               rank.tables().check(rank.exec());
             } catch (const DataError& error) {
               words[q] = error.what();
             }
             world.barrier();
           });
  for (size_t q = 0; q < kRanks; ++q) {
    const bool full = q != 1;
    CHECK(capacity_exceeded[q] == full);
    if (full)
      test::check_contains(
          words[q], {"embedding emb: its table is full: key ", q == 0 ? "of table 0" : "of table 2",
                     "all 2 rows", "raise max_vocabulary_size_per_gpu"});
    else
      CHECK(words[q].empty());
  }
}

}  // namespace hlite::embedding
