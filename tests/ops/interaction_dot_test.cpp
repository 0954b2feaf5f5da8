// Compares the bf16 interaction of one sample with its definition in double.
#include "hugectr_lite/ops/interaction_dot.h"

#include "hugectr_lite/ops/bf16_dot.h"
#include "hugectr_lite/ops/interaction.h"
#include "tests/support/catch.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

struct Interaction {
  std::vector<double> out, gradients;  // [width + pairs + 1], [rows, width]
};

Interaction by_definition(const std::vector<float>& x, const std::vector<float>& dout, int64_t rows,
                          int64_t width) {
  const auto at = [&](int64_t r, int64_t j) { return static_cast<size_t>(r * width + j); };
  Interaction want{std::vector<double>(dout.size()), std::vector<double>(x.size())};
  for (int64_t j = 0; j < width; ++j) {
    want.out[at(0, j)] = static_cast<double>(x[at(0, j)]);
    want.gradients[at(0, j)] = static_cast<double>(dout[at(0, j)]);
  }
  for (int64_t c = 0; c < rows; ++c)
    for (int64_t r = 0; r < c; ++r) {
      const auto pair = static_cast<size_t>(ops::interaction_column(width, r, c));
      for (int64_t j = 0; j < width; ++j) {
        const auto a = static_cast<double>(x[at(r, j)]), b = static_cast<double>(x[at(c, j)]);
        want.out[pair] += a * b;
        want.gradients[at(r, j)] += static_cast<double>(dout[pair]) * b;
        want.gradients[at(c, j)] += static_cast<double>(dout[pair]) * a;
      }
    }
  return want;
}

}  // namespace

TEST_CASE("DotSample gives the dot products of all pairs and their gradients") {
  if (!ops::has_bf16_dot()) return;
  for (const int64_t rows : {1, 2, 3, 9, 27, 32, 33, 65, 70})
    for (const int64_t width : {1, 2, 5, 16, 33, 64, 128}) {
      INFO(rows << " inputs of " << width);
      const int64_t out_width = ops::interaction_width(rows - 1, width);
      const auto x = random_values<bf16>(rows * width, 1), dout = random_values<bf16>(out_width, 2);
      const Interaction want = by_definition(x, dout, rows, width);
      const auto inputs = rounded<bf16>(x), gradient = rounded<bf16>(dout);
      ops::DotSample sample(rows, width);
      // The second time reuses memory that the first wrote.
      for (int time = 0; time < 2; ++time) {
        std::copy_n(inputs.data(), width, sample.input(0));
        sample.set_slots(inputs.data() + width);
        std::vector<bf16> out = rounded<bf16>(nans(out_width));
        sample.forward(out.data());
        // Covers rounding to bf16 and float sums of up to 128 products below 1.
        const Tolerance tolerance{1e-5, 0x1p-8};
        check_close(widened(out), want.out, tolerance, "out");
        std::vector<bf16> gradients = rounded<bf16>(nans(rows * width));
        sample.backward(gradient.data(), gradients.data(), gradients.data() + width);
        check_close(widened(gradients), want.gradients, tolerance, "gradients");
      }
    }
}

}  // namespace hlite::test
