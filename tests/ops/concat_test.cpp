#include "hugectr_lite/ops/concat.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct ColumnCase {
  struct Block {
    int64_t from_width, from_begin, to_begin, columns;
  };
  int64_t rows, width;
  std::vector<Block> blocks;
};

// Gaps, overlaps, several blocks of one matrix, none at all.
std::vector<ColumnCase> column_cases() {
  std::vector<ColumnCase> cases = {
      {0, 3, {{3, 0, 0, 3}}},
      {1, 1, {{1, 0, 0, 1}}},
      {5, 3, {{3, 1, 1, 0}}},
      {4, 7, {}},
      {7, 9, {{5, 2, 4, 3}}},                                   // gaps on both sides
      {33, 40, {{16, 0, 24, 16}, {24, 0, 0, 24}}},              // whole, not in order
      {13, 24, {{24, 0, 0, 16}, {8, 0, 8, 8}, {16, 8, 4, 8}}},  // three deep, and a gap
      {1031, 3, {{3, 1, 0, 2}, {2, 0, 1, 2}}},
      {3, 2000, {{1031, 7, 501, 1024}, {13, 0, 0, 13}}},
      {61, 141, {{13, 0, 0, 13}, {128, 0, 13, 128}}},  // dense features before a vector
  };
  // Every third slot of 100: more blocks than a launch takes at once.
  ColumnCase many{5, 70 * 4, {}};
  for (int64_t i = 0; i < 70; ++i) many.blocks.push_back({400, i * 4 + 8, (69 - i) * 4, 4});
  cases.push_back(many);
  many.blocks.push_back({8, 0, 100, 8});  // and one on top of two of them
  cases.push_back(many);
  return cases;
}

// The matrices of a case, one for each block.
template <typename T>
std::vector<std::vector<float>> random_blocks(const ColumnCase& c) {
  std::vector<std::vector<float>> values;
  for (const auto& block : c.blocks)
    values.push_back(random_values<T>(c.rows * block.from_width, values.size() + 1));
  return values;
}

// Summed in float in the order of the blocks.
std::vector<float> sums(const ColumnCase& c, const std::vector<std::vector<float>>& values) {
  std::vector<float> out(static_cast<size_t>(c.rows * c.width));
  for (size_t b = 0; b < values.size(); ++b) {
    const ColumnCase::Block& at = c.blocks[b];
    for (int64_t i = 0; i < c.rows; ++i)
      for (int64_t j = 0; j < at.columns; ++j)
        out[static_cast<size_t>(i * c.width + at.to_begin + j)] +=
            values[b][static_cast<size_t>(i * at.from_width + at.from_begin + j)];
  }
  return out;
}

template <typename T>
std::vector<float> concat_on(const OpDevice& on, const ColumnCase& c,
                             const std::vector<std::vector<float>>& values, int64_t offset = 0) {
  std::vector<DeviceTensor<T>> tensors;
  std::vector<ops::ColumnBlock<T>> blocks;
  for (size_t b = 0; b < values.size(); ++b) {
    const ColumnCase::Block& at = c.blocks[b];
    tensors.emplace_back(on, values[b]);
    blocks.push_back(
        {tensors.back().view(c.rows, at.from_width), at.from_begin, at.to_begin, at.columns});
  }
  const DeviceTensor<T> out(on, nans(c.rows * c.width), offset);
  ops::concat_columns<T>(on.exec(), blocks, out.view(c.rows, c.width));
  return out.host();
}

TEMPLATE_TEST_CASE("concat_columns writes the sum of the blocks to every column", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  const auto devices = op_devices<T>();
  for (const ColumnCase& c : column_cases()) {
    const auto values = random_blocks<T>(c);
    const auto want = as<T>(sums(c, values));
    for (const OpDevice& on : devices)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", " << c.rows << " x " << c.width << " of " << c.blocks.size()
                       << " blocks, offset " << offset);
        CHECK(same_values(concat_on<T>(on, c, values, offset), want));
      }
  }
}

TEST_CASE("concat_columns copies what one block covers bit by bit", "[gpu]") {
  const std::vector<float> zeros(8, -0.0f);
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    CHECK(same_values(concat_on<float>(on, {1, 8, {{8, 0, 0, 8}}}, {zeros}), zeros));
    CHECK(same_values(
        concat_on<float>(on, {1, 2, {{2, 0, 0, 1}, {2, 0, 1, 1}}}, {{-0.0f, 1}, {-0.0f, 1}}),
        {-0.0f, -0.0f}));
  }
}

TEST_CASE("concat_columns gives the same bits on any threads") {
  const ColumnCase c = column_cases().back();
  check_same_bits(
      [&]<typename T>(const OpDevice& on) { return concat_on<T>(on, c, random_blocks<T>(c)); });
}

TEST_CASE("concat_columns refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(100);
  const Matrix<float> from(m.data(), 4, 5), to(m.data() + 50, 4, 6), more(m.data() + 50, 5, 6);
  const auto run = [&](const Matrix<float>& out, int64_t from_begin, int64_t to_begin,
                       int64_t columns) {
    const ops::ColumnBlock<float> block{from, from_begin, to_begin, columns};
    ops::concat_columns(on.exec(), {&block, 1}, out);
  };
  CHECK_THROWS_AS(run(more, 0, 0, 5), Error);
  CHECK_THROWS_AS(run(to, 1, 0, 5), Error);
  CHECK_THROWS_AS(run(to, -1, 0, 2), Error);
  CHECK_THROWS_AS(run(to, 0, 2, 5), Error);
  CHECK_THROWS_AS(run(to, 0, -1, 5), Error);
  CHECK_THROWS_AS(run(to, 0, 0, -1), Error);
  CHECK_NOTHROW(run(to, 0, 1, 5));
}

}  // namespace
}  // namespace hlite::test
