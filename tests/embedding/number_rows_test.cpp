// Rows of keys against their definition: the rows of the tables before the key's, plus the key.
#include "embedding/number_rows.h"

#include "embedding/device_slots.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"

namespace hlite::embedding {
namespace {

struct NumberedShape {
  std::vector<int64_t> rows, tables;  // of each slot
  std::vector<int64_t> hotness;       // of all slots of the batch
  int64_t first_slot;                 // of the layer
};

// [columns] the layer's slot, or -1.
std::vector<int64_t> slots_of_columns(const NumberedShape& shape) {
  std::vector<int64_t> slots;
  for (int64_t s = 0; s < std::ssize(shape.hotness); ++s) {
    const int64_t own = s - shape.first_slot;
    slots.insert(slots.end(), static_cast<size_t>(shape.hotness[static_cast<size_t>(s)]),
                 own >= 0 && own < std::ssize(shape.rows) ? own : -1);
  }
  return slots;
}

// Rows of all tables before that of a slot.
int64_t rows_before(const NumberedShape& shape, int64_t slot) {
  const auto table_of = [&](int64_t s) {
    return shape.tables.empty() ? s : shape.tables[static_cast<size_t>(s)];
  };
  int64_t before = 0, counted = 0;
  for (int64_t s = 0; s < std::ssize(shape.rows); ++s)
    if (table_of(s) == counted && counted < table_of(slot)) {
      before += shape.rows[static_cast<size_t>(s)];
      ++counted;
    }
  return before;
}

constexpr uint32_t kUntouchedCell = 77;

}  // namespace

TEST_CASE("a key's row counts the rows of the tables before, and a key beyond its table has none",
          "[threads]") {
  const std::vector<NumberedShape> shapes = {{{1}, {}, {1}, 0},
                                             {{4, 7}, {}, {2, 1, 3, 1}, 1},
                                             {{5, 3, 5, 11}, {0, 1, 0, 2}, {1, 1, 4, 2, 1}, 0},
                                             // Rows are unsigned numbers of 32 bits.
                                             {{4'000'000'000, 200'000'000}, {}, {3, 1, 2}, 1}};
  for (const NumberedShape& shape : shapes)
    for (const int64_t batch : {0, 1, 2, 255, 256, 257, 1021})
      for (const int threads : {1, 3}) {
        INFO(shape.rows.size() << " slots, batch " << batch << ", threads " << threads);
        ThreadPool pool(threads);
        const Exec exec{.pool = &pool};
        const SlotLayout layout(shape.rows, 2, KeyLayout(shape.hotness), Combiner::kSum,
                                shape.first_slot, shape.tables);
        const DeviceSlots slots(exec, layout);
        const std::vector<int64_t> slot_of = slots_of_columns(shape);
        std::vector<uint32_t> keys, want;
        for (int64_t b = 0; b < batch; ++b)
          for (size_t c = 0; c < slot_of.size(); ++c) {
            const auto at = static_cast<uint64_t>(b) * slot_of.size() + c;
            const int64_t slot = slot_of[c];
            const int64_t rows = slot < 0 ? 9 : shape.rows[static_cast<size_t>(slot)];
            const uint32_t draw = random::word(3, 1, at);
            int64_t key = draw % rows;
            if (draw % 7 == 0) key = rows - 1;
            if (draw % 7 == 1) key = rows;
            if (draw % 7 == 2) key = int64_t{kNoKey} - draw % 2;  // the last one is no key
            keys.push_back(static_cast<uint32_t>(key));
            want.push_back(slot < 0      ? kUntouchedCell
                           : key >= rows ? kNoRow
                                         : static_cast<uint32_t>(rows_before(shape, slot) + key));
          }
        std::vector<uint32_t> got(keys.size(), kUntouchedCell);
        const auto columns = static_cast<int64_t>(slot_of.size());
        number_rows(exec, slots.ref(), {keys.data(), batch, columns}, {got.data(), batch, columns});
        CHECK((got == want));
      }
}

TEST_CASE("keys may be replaced by their rows in place", "[threads]") {
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  const DeviceSlots slots(exec, SlotLayout({3, 5}, 1));
  std::vector<uint32_t> cells = {2, 0, 3, 4, kNoKey, 5, 0, 1};
  const Matrix<uint32_t> at(cells.data(), 4, 2);
  number_rows(exec, slots.ref(), at, at);
  CHECK((cells == std::vector<uint32_t>{2, 3, kNoRow, 7, kNoRow, kNoRow, 0, 4}));
}

}  // namespace hlite::embedding
