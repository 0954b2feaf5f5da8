// KeyCounter against a map that counts by the definition in its header.
#include "embedding/key_counter.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kBatchKeys = 17, kMaxRows = 400;
constexpr uint32_t kThreshold = 3;

TablesSpec counting_spec(int64_t capacity, int64_t steps_to_live = 0) {
  TablesSpec spec{.name = "emb", .layout = SlotLayout({100, 100, 100}, 2), .rule = {}};
  spec.vocabulary.admission = {
      .type = AdmissionType::kCount, .threshold = kThreshold, .capacity = capacity};
  spec.vocabulary.eviction.steps_to_live = steps_to_live;
  return spec;
}

KeyCounter counter_of(const TablesSpec& spec, int64_t rows = kMaxRows) {
  return KeyCounter(spec, {.rows = rows, .max_keys = kBatchKeys});
}

struct CountedByDefinition {
  int64_t capacity, steps_to_live;
  std::map<uint64_t, RowUse> keys = {};
  uint32_t batch = 0;
  bool takes_new = false;

  uint32_t count(uint64_t key, uint32_t iteration) {
    if (batch != iteration) takes_new = std::ssize(keys) < capacity;
    batch = iteration;
    if (!keys.contains(key) && !takes_new) return 0;
    RowUse& use = keys[key];
    if (use.last == iteration) return 0;
    use.last = iteration;
    return ++use.count;
  }
  void forget(int64_t iteration) {
    std::erase_if(keys, [&](const auto& of) {
      return steps_to_live > 0 && iteration - of.second.last >= steps_to_live;
    });
    if (static_cast<double>(keys.size()) <= 0.75 * static_cast<double>(capacity)) return;
    std::vector<CountedKey> latest;
    for (const auto& [key, use] : keys) latest.push_back({key, use});
    std::sort(latest.begin(), latest.end(), [](const CountedKey& a, const CountedKey& b) {
      return std::tuple(b.use.last, b.use.count, a.key) <
             std::tuple(a.use.last, a.use.count, b.key);
    });
    latest.resize(static_cast<size_t>(capacity / 2));
    keys.clear();
    for (const CountedKey& of : latest) keys[of.key] = of.use;
  }
};

using Entry = std::tuple<uint64_t, uint32_t, uint32_t>;

std::vector<Entry> entries_of(const KeyCounter& counter) {
  std::vector<Entry> list;
  for (const CountedKey& of : counter.entries())
    list.emplace_back(of.key, of.use.count, of.use.last);
  std::sort(list.begin(), list.end());
  return list;
}
std::vector<Entry> entries_of(const std::map<uint64_t, RowUse>& keys) {
  std::vector<Entry> list;
  for (const auto& [key, use] : keys) list.emplace_back(key, use.count, use.last);
  return list;
}

std::map<std::string, std::vector<uint32_t>> words_of(KeyCounter& counter) {
  std::map<std::string, std::vector<uint32_t>> all;
  for (const TensorRef& tensor : counter.tensors({})) {
    REQUIRE(tensor.shape.size() == 2);
    CHECK(tensor.shape[1] == 3);
    CHECK(tensor.dtype == DType::kU32);
    std::vector<float> got(static_cast<size_t>(tensor.shape[0] * 3));
    tensor.get(0, got);
    auto& words = all[tensor.name];
    words.resize(got.size());
    if (!got.empty()) std::memcpy(words.data(), got.data(), got.size() * sizeof(float));
  }
  return all;
}

}  // namespace

TEST_CASE("keys are counted once a batch, up to the capacity, until they have a row") {
  for (const int64_t capacity : {1, 2, 13, 64, 1000})
    for (const int64_t steps_to_live : {0, 7}) {
      INFO("capacity " << capacity << ", steps to live " << steps_to_live);
      const TablesSpec spec = counting_spec(capacity, steps_to_live);
      KeyCounter counter = counter_of(spec);
      counter.allocate();
      CountedByDefinition want{.capacity = capacity, .steps_to_live = steps_to_live};
      std::set<uint64_t> with_row;
      int64_t refused = 0;
      for (uint32_t iteration = 1; iteration <= 80; ++iteration) {
        for (uint64_t i = 0; i < kBatchKeys; ++i) {
          const uint32_t draw = random::word(7, iteration, i);
          const uint64_t key = table_key(draw % 3, draw / 3 % (20 + 2 * iteration));
          if (with_row.contains(key)) continue;
          counter.prefetch(key);
          const uint32_t count = counter.count(key, iteration);
          REQUIRE(count == want.count(key, iteration));
          refused += !want.keys.contains(key);
          if (count != kThreshold) continue;
          counter.has_row(key);
          want.keys.erase(key);
          with_row.insert(key);
        }
        CHECK(counter.size() == std::ssize(want.keys));
        REQUIRE(entries_of(counter) == entries_of(want.keys));
        if (iteration % 5 != 0) continue;
        counter.forget(iteration);
        want.forget(iteration);
        REQUIRE(entries_of(counter) == entries_of(want.keys));
        CHECK(counter.size() == std::ssize(want.keys));
      }
      CHECK((refused > 0) == (capacity < 1000));
      CHECK((with_row.size() > 20) == (capacity > 2));
      counter.clear();
      CHECK(counter.entries().empty());
      CHECK(counter.size() == 0);
    }
}

TEST_CASE("a batch that begins below the capacity counts all of its new keys, and the next none") {
  const TablesSpec spec = counting_spec(4);
  KeyCounter counter = counter_of(spec);
  counter.allocate();
  for (uint64_t key = 0; key < 3; ++key) CHECK(counter.count(key, 1) == 1);
  for (uint64_t key = 10; key < 20; ++key) CHECK(counter.count(key, 2) == 1);
  CHECK(counter.size() == 13);
  CHECK(counter.count(30, 3) == 0);
  CHECK(counter.count(12, 3) == 2);
  CHECK(counter.size() == 13);
  // The key that gets a row makes no place before the counter forgets.
  CHECK(counter.count(12, 4) == 3);
  counter.has_row(12);
  CHECK(counter.size() == 12);
  counter.forget(4);
  // Half of the capacity: those that were seen last, of equals the smaller keys.
  CHECK(entries_of(counter) == std::vector<Entry>{{10, 1, 2}, {11, 1, 2}});
  CHECK(counter.count(30, 5) == 1);
}

TEST_CASE("without a capacity of its own a counter holds as many keys as there are rows") {
  const TablesSpec spec = counting_spec(0);
  KeyCounter counter = counter_of(spec, 5);
  counter.allocate();
  for (uint64_t key = 0; key < 5; ++key) CHECK(counter.count(key, 1) == 1);
  CHECK(counter.count(5, 2) == 0);
  CHECK(counter.count(4, 2) == 2);
}

TEST_CASE("candidates go to a file by table and key, and come back on the ranks that own them") {
  const TablesSpec spec = counting_spec(50);
  KeyCounter counter = counter_of(spec);
  counter.allocate();
  const auto empty = words_of(counter);
  CHECK(empty.size() == 3);
  for (const auto& [name, words] : empty) CHECK(words.empty());
  // 0xfffffffe is the largest key; table 1 has none.
  counter.assign({{table_key(2, 9), {.count = 4, .last = 70}},
                  {table_key(0, 0xfffffffe), {.count = 1, .last = 2}},
                  {table_key(0, 3), {.count = 2, .last = 0xffffffff}},
                  {table_key(2, 8), {.count = 1, .last = 1}}});
  CHECK(counter.size() == 4);
  const auto words = words_of(counter);
  CHECK(words == std::map<std::string, std::vector<uint32_t>>{
                     {"emb.table_0.candidates", {3, 2, 0xffffffff, 0xfffffffe, 1, 2}},
                     {"emb.table_1.candidates", {}},
                     {"emb.table_2.candidates", {8, 1, 1, 9, 4, 70}}});
  const auto in_file = [&](const std::string& name) -> std::optional<std::vector<uint32_t>> {
    if (name == "emb.table_1.candidates") return std::nullopt;  // of an earlier file
    return words.at(name);
  };
  KeyCounter all = counter_of(spec), even = counter_of(spec);
  all.allocate();
  even.allocate();
  even.assign({{table_key(1, 1), {.count = 1, .last = 1}}});  // not in the file: it goes
  all.read(in_file, [](int64_t, uint32_t) { return true; });
  even.read(in_file, [](int64_t table, uint32_t key) { return table == 2 && key % 2 == 0; });
  CHECK(entries_of(all) == entries_of(counter));
  CHECK(entries_of(even) == std::vector<Entry>{{table_key(2, 8), 1, 1}});
  // Counts that were read go on, also in the iteration after the last one.
  CHECK(all.count(table_key(2, 9), 71) == 5);
  CHECK(all.count(table_key(2, 9), 71) == 0);
}

TEST_CASE("what a counter cannot do is an error that says which key, and how many there may be") {
  const TablesSpec spec = counting_spec(2);
  KeyCounter counter = counter_of(spec, 3);
  counter.allocate();
  CHECK(counter.count(5, 1) == 1);
  CHECK(counter.count(6, 1) == 1);
  test::check_contains(test::message_of<Error>([&] { counter.has_row(5); }),
                       {"emb: key 5 has got a row, and was not the last that was counted"});
  // 2 counted before a batch, those of the batch, and those that have a row until it forgets.
  const std::vector<CountedKey> many(static_cast<size_t>(2 + kBatchKeys + 3 + 1));
  test::check_contains(test::message_of<Error>([&] { counter.assign(many); }),
                       {"emb: 23 counted keys, at most 22"});
}

}  // namespace hlite::embedding
