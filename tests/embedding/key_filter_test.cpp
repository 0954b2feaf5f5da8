// A counting Bloom filter against exact counts.
#include "embedding/key_filter.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "embedding/row_place.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::embedding {
namespace {

TablesSpec filter_spec(int64_t expected_keys, double false_positive) {
  TablesSpec spec{
      .name = "emb", .layout = SlotLayout({int64_t{kNoKey}, int64_t{kNoKey}}, 4), .rule = {}};
  spec.vocabulary.admission = {.type = AdmissionType::kBloom,
                               .threshold = 3,
                               .expected_keys = expected_keys,
                               .false_positive = false_positive};
  return spec;
}

// The filters of all ranks, each with the keys of its parts.
class Filters {
 public:
  Filters(const TablesSpec& spec, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      of_rank_.push_back(std::make_unique<KeyFilter>(
          spec, KeyCounterPlace{.rows = 100, .max_keys = 100, .rank = rank, .ranks = ranks}));
      of_rank_.back()->allocate();
    }
  }
  uint32_t count(uint64_t key, uint32_t iteration) {
    const int rank = hashed_rank(KeyOwner::kByPart, static_cast<int64_t>(key >> 32),
                                 static_cast<uint32_t>(key), static_cast<int>(of_rank_.size()));
    return of_rank_[static_cast<size_t>(rank)]->count(key, iteration);
  }
  // The tensor of a file, from what each rank has of pieces of it.
  std::vector<uint32_t> words() {
    std::vector<TensorRef> tensors;
    for (const auto& filter : of_rank_) tensors.push_back(filter->tensors({}).at(0));
    CHECK(tensors[0].shape[0] == kKeyParts);
    std::vector<uint32_t> words(static_cast<size_t>(tensors[0].size()));
    constexpr int64_t kPiece = 1237;
    for (int64_t first = 0; first < std::ssize(words); first += kPiece) {
      std::vector<float> parts,
          out(static_cast<size_t>(std::min(kPiece, std::ssize(words) - first)));
      for (const TensorRef& tensor : tensors) {
        const auto part = tensor.part(first, std::ssize(out));
        parts.insert(parts.end(), part.begin(), part.end());
      }
      tensors[0].join(first, parts, out);
      std::memcpy(words.data() + first, out.data(), out.size() * sizeof(float));
    }
    return words;
  }
  void put(const std::vector<uint32_t>& words) {
    constexpr size_t kPiece = 777;
    for (const auto& filter : of_rank_)
      for (size_t first = 0; first < words.size(); first += kPiece) {
        std::vector<float> in(std::min(kPiece, words.size() - first));
        std::memcpy(in.data(), words.data() + first, in.size() * sizeof(float));
        filter->tensors({}).at(0).put(static_cast<int64_t>(first), in);
      }
  }
  void forget() {
    for (const auto& filter : of_rank_) filter->forget(0);
  }
  int64_t size() {
    int64_t sum = 0;
    for (const auto& filter : of_rank_) sum += filter->size();
    return sum;
  }
  KeyFilter& alone() { return *of_rank_.at(0); }

 private:
  std::vector<std::unique_ptr<KeyFilter>> of_rank_;
};

uint64_t key_number(uint64_t i) {
  return table_key(static_cast<int64_t>(i % 2), static_cast<uint32_t>(i * 2654435761u));
}

// A batch of keys, few of them often.
std::set<uint64_t> draw_batch(uint64_t round, uint32_t below) {
  std::set<uint64_t> keys;
  for (uint64_t i = 0; i < 200; ++i) {
    const uint32_t x = random::word(3, round, i) % below;
    keys.insert(key_number(uint64_t{x} * x / below));
  }
  return keys;
}

}  // namespace

TEST_CASE("a filter's size follows from keys and false positives") {
  for (const auto& [share, functions] : std::map<double, int>{{0.5, 1}, {0.3, 2}, {0.01, 7}})
    CHECK(filter_shape(1000, share).functions == functions);
  // 1.44 bytes a key and function, and some for uneven parts.
  const int64_t keys = 10'000'000;
  const auto bytes = static_cast<double>(filter_shape(keys, 0.01).part_bytes() * kKeyParts);
  CHECK(bytes > 7 / std::log(2.0) * static_cast<double>(keys));
  CHECK(bytes < 7 / std::log(2.0) * static_cast<double>(keys) * 1.04);
  for (const int64_t few : {1, 7, 1023, 1025}) {
    const FilterShape shape = filter_shape(few, 0.01);
    CHECK(shape.slice >= 1);
    CHECK(shape.part_bytes() % 4 == 0);
    CHECK(shape.part_bytes() >= shape.counters());
  }
  const auto spec = filter_spec(1000, 0.1);
  const KeyFilter filter(spec, {.rows = 1, .max_keys = 1});
  CHECK(filter.bytes() >= filter_shape(1000, 0.1).part_bytes() * kKeyParts);
}

TEST_CASE("a count is never below the exact one, and seldom above it") {
  // Sized right, and far too small.
  for (const int64_t expected : {2000, 100}) {
    const auto spec = filter_spec(expected, 0.01);
    Filters filters(spec, 1);
    std::map<uint64_t, uint32_t> exact;
    int64_t asked = 0, above = 0;
    for (uint32_t iteration = 1; iteration <= 300; ++iteration)
      for (const uint64_t key : draw_batch(iteration, 2000)) {
        const uint32_t want = std::min(++exact[key], kMaxFilterCount),
                       got = filters.count(key, iteration);
        REQUIRE(got >= want);
        ++asked;
        above += got > want;
      }
    CHECK(exact.size() > 1000);
    CHECK(exact.size() <= 2000);
    CHECK(exact.at(key_number(0)) > kMaxFilterCount);  // one has reached the end
    if (expected == 2000)
      CHECK(above * 100 <= asked);
    else
      CHECK(above * 20 > asked);
  }
}

TEST_CASE("the share of new keys that seem to be known is as promised, if all keys are expected") {
  for (const double promised : {0.2, 0.01, 0.001})
    for (const int64_t keys : {1500, 50'000}) {
      INFO(promised << ", " << keys);
      const auto spec = filter_spec(keys, promised);
      Filters filters(spec, 1);
      for (int64_t i = 0; i < keys; ++i)
        (void)filters.count(key_number(static_cast<uint64_t>(i)), 1);
      constexpr int64_t kOthers = 200'000;
      int64_t known = 0;
      for (int64_t i = keys; i < keys + kOthers; ++i)
        known += filters.count(key_number(static_cast<uint64_t>(i)), 2) > 1;
      CHECK(static_cast<double>(known) <= promised * kOthers);
      // Nor is the filter larger than it need be.
      if (keys == 50'000) CHECK(static_cast<double>(known) >= promised * kOthers / 20);
    }
}

TEST_CASE("counts are the same in any order, in a run that is made again and on any ranks") {
  const auto spec = filter_spec(60, 0.05);  // many keys share counters
  const auto counts_of = [&](Filters& filters, bool backwards, bool again) {
    std::vector<uint32_t> counts;
    for (uint32_t iteration = 1; iteration <= 12; ++iteration) {
      const auto batch = draw_batch(iteration, 900);
      std::map<uint64_t, uint32_t> of_batch;
      for (int run = 0; run <= (again ? 1 : 0); ++run) {
        const auto take = [&](uint64_t key) {
          const uint32_t count = filters.count(key, iteration);
          if (run == 1) CHECK(count == of_batch.at(key));
          of_batch[key] = count;
        };
        if (backwards)
          std::for_each(batch.rbegin(), batch.rend(), take);
        else
          std::for_each(batch.begin(), batch.end(), take);
      }
      for (const auto& [key, count] : of_batch) counts.push_back(count);
      if (iteration % 5 == 0) filters.forget();
    }
    return counts;
  };
  Filters one(spec, 1);
  const auto want = counts_of(one, false, false);
  const auto words = one.words();
  CHECK(std::set(want.begin(), want.end()).size() > 3);
  CHECK(std::count_if(words.begin(), words.end(), [](uint32_t word) { return word != 0; }) > 100);
  for (const int ranks : {1, 2, 4, 7}) {
    INFO(ranks);
    Filters filters(spec, ranks);
    CHECK((counts_of(filters, ranks % 2 == 0, ranks != 4) == want));
    CHECK((filters.words() == words));
    // Into a file, and back on another number of ranks.
    Filters read(spec, 8 - ranks);
    read.put(words);
    CHECK((read.words() == words));
    for (const uint64_t key : draw_batch(99, 900))
      CHECK(read.count(key, 50) == filters.count(key, 50));
  }
}

TEST_CASE("a filter that holds more than the expected keys halves its counts") {
  constexpr int64_t kExpected = 20'000;
  const auto spec = filter_spec(kExpected, 0.01);
  Filters filters(spec, 3);
  const auto add = [&](uint64_t first, uint64_t end, uint32_t iteration) {
    for (uint64_t i = first; i < end; ++i) (void)filters.count(key_number(i), iteration);
  };
  add(0, kExpected / 2, 1);
  CHECK(std::abs(filters.size() - kExpected / 2) < kExpected / 50);
  const auto before = filters.words();
  filters.forget();
  CHECK((filters.words() == before));  // there is place
  for (uint32_t iteration = 2; iteration <= 9; ++iteration) add(0, 100, iteration);
  add(kExpected, 4 * kExpected, 10);
  CHECK(std::abs(filters.size() - kExpected * 7 / 2) < kExpected / 5);
  filters.forget();
  CHECK(filters.size() < kExpected * 11 / 10);
  for (uint64_t i = 0; i < 100; ++i) CHECK(filters.count(key_number(i), 11) >= 9 / 2 / 2 + 1);
  filters.alone().clear();
  CHECK(filters.alone().size() == 0);
}

TEST_CASE("a filter takes the counts of keys that were counted exactly") {
  const auto spec = filter_spec(1000, 0.01);
  const WordsOf words_of = [](const std::string& name) -> std::optional<std::vector<uint32_t>> {
    if (name == "emb.table_0.candidates") return std::vector<uint32_t>{4, 2, 9, 8, 400, 9};
    if (name == "emb.table_1.candidates") return std::vector<uint32_t>{4, 5, 3};
    return std::nullopt;
  };
  Filters filters(spec, 1);
  (void)filters.count(table_key(1, 77), 1);
  filters.alone().read(words_of, [](int64_t, uint32_t) { return true; });
  CHECK(filters.count(table_key(0, 4), 10) == 3);
  CHECK(filters.count(table_key(0, 8), 10) == kMaxFilterCount);
  CHECK(filters.count(table_key(1, 4), 10) == 6);
  CHECK(filters.count(table_key(1, 77), 10) == 1);  // from before the file
}

}  // namespace hlite::embedding
