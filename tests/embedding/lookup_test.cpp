#include "embedding/lookup.h"

#include <vector>

#include "embedding/device_slots.h"
#include "tests/embedding/lookup_case.h"
#include "tests/support/catch.h"

using namespace hlite;

namespace {
void look_up(ThreadPool& pool, const embedding::SlotLayout& layout, Matrix<const float> table,
             Matrix<const uint32_t> keys, View<float, 3> out) {
  const Exec exec{.pool = &pool};
  const embedding::DeviceSlots slots(exec, layout);
  embedding::lookup_forward(exec, slots.ref(), table, keys, out);
}
}  // namespace

TEST_CASE("lookup_forward copies the rows exactly", "[threads]") {
  for (const auto& rows : test::table_sizes()) {
    for (const int64_t width : {1, 3, 8, 16, 32, 33, 64, 128}) {
      for (const int64_t batch : {0, 1, 7, 2048}) {
        if (batch == 2048 && width > 33 && rows.size() > 1) continue;  // time
        const test::LookupCase x(rows, width, batch);
        const int64_t slots = x.layout.slots();
        std::vector<float> want;
        for (int64_t b = 0; b < batch; ++b)
          for (int64_t s = 0; s < slots; ++s) {
            const int64_t row = x.layout.offset[static_cast<size_t>(s)] + x.keys_view()(b, s);
            for (int64_t j = 0; j < width; ++j)
              want.push_back(x.table[static_cast<size_t>(row * width + j)]);
          }
        for (const int threads : {1, 2, 3}) {
          ThreadPool pool(threads);
          std::vector<float> got(want.size() + 1, -5.f);
          look_up(pool, x.layout, Matrix<const float>(x.table.data(), x.layout.total_rows, width),
                  x.keys_view(), View<float, 3>(got.data(), batch, slots, width));
          CHECK(got.back() == -5.f);
          got.pop_back();
          INFO("slots " << slots << ", width " << width << ", batch " << batch);
          CHECK(got == want);
        }
      }
    }
  }
}

TEST_CASE("lookup_forward adds up, or averages, the rows of the keys that are there", "[threads]") {
  using embedding::Combiner;
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
    for (const auto& hotness : {std::vector<int64_t>{3, 1, 40}, {1, 1, 1}, {2, 1, 1}}) {
      for (const int64_t width : {1, 3, 16, 33, 64, 128}) {
        for (const int64_t batch : {0, 1, 7, 300}) {
          const test::LookupCase x({1000, 3, 40}, width, batch, hotness, combiner);
          std::vector<double> want;
          std::vector<float> exact;  // rows that are alone in their slot; 0 where there is none
          for (int64_t b = 0; b < batch; ++b)
            for (int64_t s = 0; s < 3; ++s) {
              const auto rows = x.rows_of(b, s);
              for (int64_t j = 0; j < width; ++j) {
                double sum = 0;
                for (const int64_t row : rows)
                  sum += static_cast<double>(x.table[static_cast<size_t>(row * width + j)]);
                want.push_back(rows.empty() ? 0 : sum * x.weight(rows.size()));
                exact.push_back(rows.size() > 1 ? -1.f : static_cast<float>(sum));
              }
            }
          std::vector<float> first;
          for (const int threads : {1, 2, 3}) {
            ThreadPool pool(threads);
            std::vector<float> got(want.size(), -5.f);
            look_up(pool, x.layout, Matrix<const float>(x.table.data(), x.layout.total_rows, width),
                    x.keys_view(), View<float, 3>(got.data(), batch, 3, width));
            test::check_close<const float, const double>(
                got, want, {.absolute = 5e-6, .relative = 1e-6}, "pooled rows");
            bool copied = true;
            for (size_t i = 0; i < got.size(); ++i)
              copied &= exact[i] == -1.f || got[i] == exact[i];
            CHECK(copied);
            if (threads == 1) first = got;
            CHECK(got == first);
          }
        }
      }
    }
  }
}

TEST_CASE("lookup_forward copies rows by the columns of its own slots", "[threads]") {
  for (const bool complete : {false, true}) {
    test::LookupCase x({1000, 3, 40}, 16, 301, {1, 1, 1});
    x.layout.complete = complete;
    x.draw(1);
    std::vector<float> want;
    for (int64_t b = 0; b < x.batch; ++b)
      for (int64_t s = 0; s < 3; ++s) {
        const auto rows = x.rows_of(b, s);
        for (int64_t j = 0; j < 16; ++j)
          want.push_back(rows.empty() ? 0.f : x.table[static_cast<size_t>(rows[0] * 16 + j)]);
      }
    ThreadPool pool(2);
    std::vector<float> got(want.size(), -5.f);
    look_up(pool, x.layout, Matrix<const float>(x.table.data(), x.layout.total_rows, 16),
            x.keys_view(), View<float, 3>(got.data(), x.batch, 3, 16));
    CHECK(got == want);
  }
}

TEST_CASE("lookup_forward refuses shapes that do not match") {
  ThreadPool pool(1);
  const test::LookupCase x({10, 20}, 4, 3);
  std::vector<float> out(3 * 2 * 4);
  const Matrix<const float> table(x.table.data(), 30, 4);
  const View<float, 3> good(out.data(), 3, 2, 4);
  const View<float, 3> bad(out.data(), 3, 2, 3);
  CHECK_NOTHROW(look_up(pool, x.layout, table, x.keys_view(), good));
  CHECK_THROWS_AS(look_up(pool, x.layout, table, x.keys_view(), bad), Error);
  CHECK_THROWS_AS(look_up(pool, x.layout, table.rows(0, 29), x.keys_view(), good), Error);
  CHECK_THROWS_AS(look_up(pool, x.layout, table, x.keys_view().rows(0, 2), good), Error);
}
