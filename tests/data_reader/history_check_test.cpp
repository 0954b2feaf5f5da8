#include "data_reader/history_check.h"

#include "data_reader/open_source.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/history_samples.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::HistoryShape;
using test::KeyLists;

namespace {

constexpr int64_t kHistorySamples = 23, kHistoryBatch = 5;

std::unique_ptr<BatchSource> open_histories(const test::TemporaryDirectory& folder,
                                            const HistoryShape& shape, bool raw,
                                            const std::vector<KeyLists>& samples) {
  if (raw) {
    test::write_text(folder / "raw.bin", test::raw_histories(shape, samples));
    return open_source(shape.config("RawAsync"), folder / "raw.bin", Split::kTrain, kHistoryBatch,
                       shape.slot_rows, {.repeat = false});
  }
  test::write_text(folder / "a.norm", test::norm_histories(shape, samples));
  test::write_text(folder / "list.txt", "1\na.norm\n");
  return open_source(shape.config("Norm"), folder / "list.txt", Split::kTrain, kHistoryBatch,
                     shape.slot_rows, {.repeat = false});
}

std::string refused_norm(const HistoryShape& shape, const KeyLists& lists) {
  const test::TemporaryDirectory folder;
  return test::message_of<DataError>([&] {
    open_histories(folder, shape, false, {lists_of(shape, 0), lists})->next();
  });
}

std::string refused_raw(const std::vector<uint32_t>& row) {
  const test::TemporaryDirectory folder;
  const HistoryShape shape{.max_len = 3};
  std::string text;
  test::put(text, 1.f);
  test::put(text, .5f);
  for (const uint32_t key : row) test::put(text, key);
  test::write_text(folder / "raw.bin", text);
  return test::message_of<DataError>([&] {
    open_source(shape.config("RawAsync"), folder / "raw.bin", Split::kTrain, 1, shape.slot_rows)
        ->next();
  });
}

}  // namespace

TEST_CASE("histories of Norm and raw files: the latest keys, oldest first") {
  for (const int64_t max_len : {1, 2, 4, 17}) {
    const test::TemporaryDirectory folder;
    const HistoryShape shape{.max_len = max_len};
    const auto samples = history_samples(shape, kHistorySamples);
    CHECK(gives_histories(*open_histories(folder, shape, true, samples), shape, samples));
    for (const bool sum : {false, true})
      for (const bool wide : {false, true}) {
        HistoryShape norm = shape;
        norm.sum = sum;
        norm.int64_keys = norm.global_keys = wide;
        const auto wanted = history_samples(norm, kHistorySamples);
        CHECK(gives_histories(*open_histories(folder, norm, false, wanted), norm, wanted));
      }
  }
}

TEST_CASE("all histories of a file may be empty") {
  for (const bool raw : {false, true}) {
    const test::TemporaryDirectory folder;
    const HistoryShape shape{.max_len = 3};
    const std::vector<KeyLists> samples(7, {{1}, {}, {}, {2, 3}});
    CHECK(gives_histories(*open_histories(folder, shape, raw, samples), shape, samples));
  }
}

TEST_CASE("slots of one history that differ in length are refused, also before what is kept") {
  for (const bool sum : {false, true}) {
    const HistoryShape shape{.max_len = 3, .sum = sum};
    const std::string message = refused_norm(shape, {{1}, {1, 2}, {1}, {}});
    test::check_contains(message, {"a.norm: record 1 (byte "});
    test::check_contains(message,
                         {"slot 1 and slot 2: expected equally many keys, as they are one history, "
                          "found 2 and 1"});
    test::check_contains(refused_norm(shape, {{1}, {1, 2, 3, 4}, {1, 2, 3, 4, 5}, {}}),
                         {"found 4 and 5"});
    test::check_contains(refused_norm(shape, {{1}, {1}, {1}, {1, 2, 3, 4}}),
                         {"slot 3: expected 0 to 3 keys (max_nnz or nnz_per_slot of the config)"});
  }
  test::check_contains(
      refused_raw({1, 5, kNoKey, kNoKey, 6, 6, kNoKey, 1, 1, 1}),
      {"raw.bin: sample 0 (byte 0), slot 1 and slot 2: expected equally many keys, "
       "as they are one history, found 1 and 2"});
}

TEST_CASE("inputs side by side of the same lengths are one history") {
  const HistoryShape shape{.max_len = 3};
  config::DataConfig data = shape.config("Norm");
  config::SparseInputConfig& items = data.sparse[1];
  items.slot_num = 1;
  items.hotness = {3};
  items.lengths = "n";
  data.sparse.insert(data.sparse.begin() + 2, items);
  data.sparse[2].top = "cates";
  const auto slots = [&] {
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const History& h : histories_of(data)) found.emplace_back(h.first_slot, h.slots);
    return found;
  };
  using Slots = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(slots() == Slots{{1, 2}});
  data.sparse[2].lengths = "other";
  CHECK(slots() == Slots{{1, 1}, {2, 1}});
  data.sparse[2].lengths = data.sparse[1].lengths = "";
  CHECK(slots() == Slots{{1, 1}, {2, 1}});
}

TEST_CASE("a key after an absent one is refused") {
  test::check_contains(refused_raw({1, 5, kNoKey, 7, 6, kNoKey, 6, 1, 1, 1}),
                       {"key 2 of slot 1: expected no key after an absent one, found 7"});
  test::check_contains(refused_raw({1, 5, 7, kNoKey, kNoKey, 6, kNoKey, 1, 1, 1}),
                       {"key 1 of slot 2: expected no key after an absent one, found 6"});
}

TEST_CASE("a key of a history that is kept has to be in its table") {
  const HistoryShape shape{.max_len = 2};
  test::check_contains(
      refused_norm(shape, {{1}, {1, 2, 500}, {1, 2, 3}, {}}),
      {"key 1 of slot 1: expected less than 500, the rows of its table, found 500"});
  const test::TemporaryDirectory folder;
  const std::vector<KeyLists> dropped(3, {{1}, {500, 2, 3}, {1, 2, 3}, {}});
  CHECK(gives_histories(*open_histories(folder, shape, false, dropped), shape, dropped));
}

TEST_CASE("a Norm file that ends within a history, or says an absurd length, is refused") {
  const test::TemporaryDirectory folder;
  const HistoryShape shape{.max_len = 2};
  const KeyLists lists{{1}, {1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {}};
  const std::string whole = test::norm_histories(shape, {lists});
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "a.norm", text);
    test::write_text(folder / "list.txt", "1\na.norm\n");
    return test::message_of<DataError>([&] {
      open_source(shape.config("Norm"), folder / "list.txt", Split::kTrain, 1, shape.slot_rows)
          ->next();
    });
  };
  for (size_t cut = 1; cut < 60; ++cut)
    CHECK_FALSE(refused(whole.substr(0, whole.size() - cut)).empty());
  std::string absurd = whole;
  absurd.replace(whole.size() - 52, 4, std::string("\xff\xff\xff\x7f", 4));
  test::check_contains(refused(absurd), {"slot 1: expected 0 to 16777216 keys, found 2147483647"});
}
