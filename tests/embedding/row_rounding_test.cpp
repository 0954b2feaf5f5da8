#include "embedding/row_rounding.h"

#include <cmath>
#include <set>
#include <vector>

#include "embedding/requested_rows.h"
#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::embedding;

namespace {

// Row r of the array is key 7 r + 3 of table r mod 2.
TableRow name_of(int64_t row) { return {row % 2, static_cast<uint32_t>(7 * row + 3)}; }

// Rows of `width` weights x, updated by SGD with gradient g at a rate of 1 in the given step.
std::vector<bf16> updated(const RowRounding& rounding, float x, float g, int64_t rows,
                          int64_t width, int64_t step) {
  std::vector<bf16> weights(static_cast<size_t>(rows * width), from_float<bf16>(x));
  const std::vector<float> gradients(weights.size(), g);
  const float rate = 1;
  ThreadPool pool(2);
  update_rows({.pool = &pool},
              {.rule = {.type = optimizer::OptimizerType::kSgd},
               .lr = &rate,
               .step = &step,
               .gradients = gradients.data(),
               .rows = {.w = {weights.data(), rows, width}, .rounding = &rounding}});
  return weights;
}

}  // namespace

TEST_CASE("an update rounds each weight by the draw of its table, key, column and step",
          "[threads]") {
  const RowRounding rounding(17, "emb", 2, name_of);
  for (const int64_t width : {1, 3, 8, 16, 17, 33, 64, 65, 128, 200}) {
    INFO(width);
    const int64_t rows = 5, step = (int64_t{1} << 33) + 5;
    const auto got = updated(rounding, 1.0f, 0.0012345f, rows, width, step);
    int wrong = 0;
    for (int64_t i = 0; i < rows * width; ++i)
      wrong += got[static_cast<size_t>(i)].bits !=
               round_stochastically<bf16>(1.0f - 0.0012345f,
                                          rounding.draw(name_of(i / width), step, i % width))
                   .bits;
    CHECK(wrong == 0);
  }
}

TEST_CASE("draws differ by seed, layer, table, key, column and step") {
  std::set<uint64_t> seen;
  int64_t count = 0;
  for (const uint64_t seed : {1ull, 2ull})
    for (const char* layer : {"emb", "wide"}) {
      const RowRounding rounding(seed, layer, 2, name_of);
      for (const int64_t slot : {0, 1})
        for (const uint32_t key : {0u, 1u, 0xfffffff0u})
          for (const int64_t step : {int64_t{1}, int64_t{2}, int64_t{1} << 32})
            for (int64_t block = 0; block < 4; ++block, ++count) {
              uint64_t bits = 0;  // 64 of them: equal ones are not by chance
              for (int64_t c = 0; c < 4; ++c)
                bits = bits << 16 | rounding.draw({slot, key}, step, 4 * block + c);
              seen.insert(bits);
            }
    }
  CHECK(static_cast<int64_t>(seen.size()) == count);
}

TEST_CASE("the mean of a row's updates over many steps is what the optimizer made", "[threads]") {
  const RowRounding rounding(3, "emb", 2, name_of);
  // Updates of 1/10 of the distance between neighbours, which rounding to nearest would lose.
  const float x = 1.0f, change = 0x1p-7f / 10;
  constexpr int64_t kRows = 64, kWidth = 16, kSteps = 200;
  double sum = 0;
  for (int64_t step = 1; step <= kSteps; ++step)
    for (const bf16 w : updated(rounding, x, -change, kRows, kWidth, step))
      sum += static_cast<double>(to_float(w) - x);
  const auto n = static_cast<double>(kRows * kWidth * kSteps);
  const double deviation = 0x1p-7 * std::sqrt(0.1 * 0.9 / n);  // of the mean
  CHECK(std::abs(sum / n - static_cast<double>(change)) < 4 * deviation);
}
