// Hashed tables on the emulated device and, where there is one, on the GPU:
// everything as on the CPU.
#include <map>
#include <numeric>
#include <set>

#include "embedding/row_copies.h"
#include "tests/cuda/embedding_device.h"
#include "tests/embedding/hashed_case.h"
#include "tests/embedding/vocabulary_case.h"
#include "tests/support/errors.h"
#include "tests/support/op_device.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

using embedding::Combiner;
using embedding::table_key;

// The same batches on both devices.
void check_batches(const Exec& gpu, const std::vector<int64_t>& hotness, int64_t width,
                   uint64_t first_round = 0, const std::vector<int64_t>& tables = {}) {
  ThreadPool pool(2);
  HashedCase want({.pool = &pool}, hotness, width, 3000, Combiner::kSum, tables),
      got(gpu, hotness, width, 3000, Combiner::kSum, tables);
  for (uint64_t round = first_round; round < first_round + 8; ++round) {
    const int64_t batch = round % 4 == 3 ? 0 : 1 + static_cast<int64_t>(round * 7 % 64);
    const auto keys = want.draw(batch, round % 2 ? 90 : 500, round);
    const bool training = round % 3 != 2;
    INFO("round " << round << ", batch " << batch << ", width " << width);
    CHECK((got.find_rows(keys, training) == want.find_rows(keys, training)));
    CHECK_NOTHROW(got.index.check(gpu));
    CHECK((got.look_up(keys) == want.look_up(keys)));
  }
  const auto keys = want.index.keys();
  CHECK(keys.size() > 50);
  CHECK((got.index.keys() == keys));
  CHECK((got.values(keys.size()) == want.values(keys.size())));
}

TEST_CASE("hashed rows, initial values and lookups of a GPU are the CPU's", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {1, 5, 33}) {
      check_batches(device.exec(), {1, 1, 1}, width);
      check_batches(device.exec(), {3, 1, 7}, width);
    }
    check_batches(device.exec(), {3, 1, 7, 1}, 5, 0, {0, 1, 0, 1});
    check_batches(device.exec(), {1}, 4);
    check_batches(device.exec(), std::vector<int64_t>(40, 1), 2);
  }
}

TEST_CASE("hashed rows do not depend on the order of threads") {
  const OnDevice device(emulated_cuda());
  for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 7);
    check_batches(device.exec(), {2, 1, 3}, 4, 20);
  }
  emulation::set_order(emulation::Order::kForward);
}

TEST_CASE("a full table of a GPU is a note for the host, and changes no row that was there",
          "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    HashedCase c(device.exec(), {1, 1}, 2, 3);
    const std::vector<uint32_t> few = {0, 0, 5, kNoKey, 0, 0, 0, 5, 8, 0},
                                more = {0, 0, 8, 70, 0, 0, 0, 5, 60, 0};
    (void)c.find_rows(few, true);
    CHECK_NOTHROW(c.index.check(device.exec()));
    const auto before = c.values(2);
    for (int again = 0; again < 2; ++again) {  // the first one stays
      (void)c.find_rows(more, true);
      check_contains(message_of<DataError>([&] { c.index.check(device.exec()); }),
                     {"emb", "is full", "key 60 of table 1", "all 3 rows",
                      "raise max_vocabulary_size_per_gpu"});
    }
    CHECK((c.values(2) == before));
    CHECK(c.index.keys() ==
          std::vector<uint64_t>{table_key(0, 5), table_key(1, 8), table_key(0, 8)});
    // Far more keys than places.
    (void)c.find_rows(c.draw(64, 1000, 3), true);
    CHECK(c.index.keys().size() == 3);
    c.index.clear();
    CHECK_NOTHROW(c.index.check(device.exec()));
  }
}

TEST_CASE("no rows of a table on a GPU are none to read or write", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnDevice device(*backend.table);
    const HashedCase of(device.exec(), {1}, 3, 8);
    int uses = 0;
    for (const embedding::StoredRows::Part& part : of.storage().rows().parts())
      for (const bool write : {false, true})
        of.storage().rows().with_own(part, {}, write, [&](const auto& row) {
          CHECK(row(0) == nullptr);  // where row 0 would begin
          ++uses;
        });
    CHECK(uses == 4);
  }
}

TEST_CASE("keys get and lose rows on a GPU as on the CPU, whatever the order of threads", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends())
    for (const auto order : {emulation::Order::kForward, emulation::Order::kShuffled}) {
      emulation::set_order(order, 5);
      for (const auto& [name, rules] : vocabulary_rules()) {
        INFO(backend.name << ", " << name);
        const OnDevice device(*backend.table);
        ThreadPool pool(2);
        const int64_t capacity = capacity_for(rules);
        HashedCase want({.pool = &pool}, {3, 1}, 3, capacity, Combiner::kMean, {}, rules),
            got(device.exec(), {3, 1}, 3, capacity, Combiner::kMean, {}, rules);
        for (int64_t iteration = 1; iteration <= 12; ++iteration) {
          INFO("iteration " << iteration);
          const auto keys = want.draw(15, static_cast<uint32_t>(20 + iteration * 3), iteration);
          for (HashedCase* c : {&want, &got}) c->set_iterations(iteration - 1);
          CHECK((got.find_rows(keys, true) == want.find_rows(keys, true)));
          CHECK((got.look_up(keys) == want.look_up(keys)));
          if (iteration % 3 == 0)
            for (HashedCase* c : {&want, &got}) c->index.evict(iteration, iteration - 3);
          check_same(VocabularyState(got), VocabularyState(want));
          const size_t rows = want.index.keys().size();
          CHECK((got.values(rows) == want.values(rows)));
        }
        // In lists, as on several ranks.
        for (HashedCase* c : {&want, &got}) c->set_iterations(20);
        std::vector<std::pair<uint32_t, uint32_t>> list;
        for (uint32_t i = 0; i < 60; ++i) list.emplace_back(i % 2, i * 5 % 37);
        const auto on_gpu = got.take_list(list, true), on_cpu = want.take_list(list, true);
        CHECK((on_gpu.rows == on_cpu.rows));
        CHECK((on_gpu.vectors == on_cpu.vectors));
        CHECK(on_gpu.capacity_exceeded == on_cpu.capacity_exceeded);
        // What a checkpoint has of one goes into the other.
        read_counted(want, got);
        check_same(VocabularyState(got), VocabularyState(want));
      }
    }
  emulation::set_order(emulation::Order::kForward);
}

// Requests of several ranks: by table, then key, again and again.
std::vector<std::pair<uint32_t, uint32_t>> draw_list(int64_t n, uint64_t round) {
  std::vector<std::pair<uint32_t, uint32_t>> list;
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
    const uint32_t key = random::word(round, 7, i) % 40;
    list.emplace_back(random::word(round, 8, i) % 5, key == 3       ? kNoKey
                                                     : key % 4 == 0 ? kNoKey - 1 - key
                                                                    : key);
  }
  return list;
}

TEST_CASE("keys of any tables that come in a list get rows by table and key, or initial values",
          "[gpu]") {
  for (const OpDevice& device : op_devices<float>())
    for (const auto order : {emulation::Order::kForward, emulation::Order::kShuffled}) {
      INFO(device.name());
      emulation::set_order(order, 3);
      const int64_t width = 3;
      HashedCase c(device.exec(), {1, 1, 1, 1, 1}, width, 5000);
      std::map<std::pair<uint32_t, uint32_t>, uint32_t> rows;
      for (uint64_t round = 0; round < 6; ++round) {
        const bool training = round % 3 != 1;
        const auto list = draw_list(round == 4 ? 0 : 1 + static_cast<int64_t>(round) * 61, round);
        const auto got = c.take_list(list, training);
        CHECK(got.capacity_exceeded == 0);
        if (training)
          for (const auto& both : std::set(list.begin(), list.end()))
            if (both.second != kNoKey) rows.emplace(both, static_cast<uint32_t>(rows.size()));
        std::vector<uint32_t> want_rows;
        std::vector<float> want;
        for (const auto& both : list) {
          const auto at = rows.find(both);
          want_rows.push_back(both.second == kNoKey ? kNoKey
                              : at == rows.end()    ? embedding::kUnseen
                                                    : at->second);
          std::vector<float> vector(static_cast<size_t>(width), 9);  // no row moves here
          if (both.second != kNoKey)
            c.storage().initial_values(both.first, both.second, vector.data());
          want.insert(want.end(), vector.begin(), vector.end());
        }
        CHECK(got.rows == want_rows);
        CHECK(got.vectors == want);
      }
      CHECK(rows.size() > 100);
      CHECK(c.index.keys().size() == rows.size());
    }
  emulation::set_order(emulation::Order::kForward);
}

TEST_CASE("new keys get rows by table and key however many there are", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    HashedCase c(device.exec(), {1, 1, 1}, 2, 100000);
    std::vector<uint64_t> want;
    uint32_t at = 0;
    // Sorted by one block, by several, and merged in one pass and in two.
    for (const uint32_t n : {1u, 2u, 33u, 4096u, 0u, 4097u, 66000u}) {
      std::vector<std::pair<uint32_t, uint32_t>> list;
      std::set<uint64_t> keys;
      for (uint32_t i = 0; i < n; ++i, ++at) {
        list.emplace_back(at % 3, at * 2654435761u);
        keys.insert(table_key(list.back().first, list.back().second));
      }
      CHECK(c.take_list(list, true).capacity_exceeded == 0);
      want.insert(want.end(), keys.begin(), keys.end());
      CHECK((c.index.keys() == want));
    }
  }
}

TEST_CASE(
    "a key in a list that finds its table full sets the device's flag, and has its initial values",
    "[gpu]") {
  for (const OpDevice& device : op_devices<float>()) {
    INFO(device.name());
    HashedCase c(device.exec(), {1, 1}, 2, 3);
    CHECK(c.take_list({{1, 4}, {0, 9}}, true).capacity_exceeded == 0);
    const auto full = c.take_list({{0, 9}, {1, 7}, {1, 4}, {0, 2}, {1, kNoKey}}, true);
    CHECK(full.capacity_exceeded == 1);
    CHECK(full.rows == std::vector<uint32_t>{0, embedding::kUnseen, 1, 2, kNoKey});
    std::vector<float> first(2);
    c.storage().initial_values(1, 7, first.data());
    CHECK(full.vectors[2] == first[0]);
    CHECK(full.vectors[8] == 9);
    check_contains(message_of<DataError>([&] { c.index.check(device.exec()); }),
                   {"key 7 of table 1", "all 3 rows"});
  }
}

TEST_CASE("keys are assigned to rows of a GPU in their order", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    ThreadPool pool(1);
    HashedCase want({.pool = &pool}, {1, 2}, 3, 700), got(device.exec(), {1, 2}, 3, 700);
    std::vector<uint64_t> keys;
    for (uint32_t i = 0; i < 600; ++i) keys.push_back(table_key(i % 2, i * 7919u));
    for (HashedCase* c : {&want, &got}) {
      (void)c->find_rows(c->draw(40, 1000, 1), true);
      c->index.assign(keys);
    }
    CHECK((got.index.keys() == keys));
    CHECK((got.values(600) == want.values(600)));
    const auto batch = want.draw(64, 4000, 9);
    CHECK((got.find_rows(batch, false) == want.find_rows(batch, false)));
    got.index.assign({});
    CHECK(got.index.keys().empty());
  }
}

TEST_CASE("an insertion on a GPU takes no memory") {
  const OnDevice device(emulated_cuda());
  HashedCase c(device.exec(), {1, 3}, 4, 3000);
  (void)c.find_rows(c.draw(10, 500, 1), true);
  const int blocks = emulation::machine().device_blocks;
  (void)c.find_rows(c.draw(64, 500, 2), true);
  CHECK(emulation::machine().device_blocks == blocks);
  CHECK_THROWS_AS(c.find_rows(c.draw(65, 500, 2), true), Error);
}

TEST_CASE("16-bit lookups of keys without a row are rounded from float", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    HashedCase c(device.exec(), {2, 1}, 3, 100, Combiner::kMean);
    const auto keys = c.draw(20, 50, 4);
    const std::vector<float> exact = c.look_up(keys);
    CHECK((widened(c.look_up<bf16>(keys)) == widened(from_floats<bf16>(exact))));
    CHECK((widened(c.look_up<fp16>(keys)) == widened(from_floats<fp16>(exact))));
  }
}

TEST_CASE("rows are gathered from and scattered to any places", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {1, 3, 64})
      for (const int64_t n : {0, 1, 7, 300}) {
        std::vector<float> table(static_cast<size_t>(1000 * width));
        fill_random(table, 3);
        std::vector<uint32_t> rows;
        for (int64_t i = 0; i < n; ++i) rows.push_back(static_cast<uint32_t>(i * 337 % 1000));
        const DeviceArray<float> on_device(device.ops(), table),
            out(device.ops(), static_cast<size_t>(n * width));
        const DeviceArray<uint32_t> list(device.ops(), rows);
        const Matrix<float> all(on_device.data(), 1000, width), some(out.data(), n, width);
        embedding::kernels::gather_rows(device.exec(), all, {list.data(), n}, some);
        std::vector<float> want, doubled = table;
        for (const uint32_t row : rows)
          for (int64_t j = 0; j < width; ++j) {
            const auto at = static_cast<size_t>(row * width + j);
            want.push_back(table[at]);
          }
        CHECK((out.to_host(device.stream()) == want));
        // Each to the row of the next one.
        for (size_t i = 0; i < rows.size(); ++i)
          std::copy_n(want.begin() + static_cast<std::ptrdiff_t>(i) * width, width,
                      doubled.begin() + rows[(i + 1) % rows.size()] * width);
        std::rotate(rows.begin(), rows.begin() + (n > 0), rows.end());
        const DeviceArray<uint32_t> rotated(device.ops(), rows);
        embedding::kernels::scatter_rows(device.exec(), some, {rotated.data(), n}, all);
        CHECK((on_device.to_host(device.stream()) == doubled));
      }
  }
}

}  // namespace
}  // namespace hlite::test
