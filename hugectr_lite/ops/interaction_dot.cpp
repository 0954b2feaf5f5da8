#include "hugectr_lite/ops/interaction_dot.h"

#include <algorithm>

#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/bf16_dot.h"
#include "hugectr_lite/ops/lanes.h"

namespace hlite::ops {
namespace {

constexpr int64_t kTile = 32;  // columns of a row of pairs that are moved at a time

int64_t in_tiles(int64_t n) { return (n + kTile - 1) / kTile * kTile; }
int64_t triangle_row(int64_t c) { return c * (c - 1) / 2; }
template <typename T>
std::vector<T> array(int64_t n) {
  return std::vector<T>(static_cast<size_t>(n));
}

}  // namespace

DotSample::DotSample(int64_t rows, int64_t width)
    : rows_(rows),
      width_(width),
      even_rows_((rows + 1) / 2 * 2),
      stride_((width + 1) / 2 * 2),
      side_(in_tiles(rows)),
      inputs_(array<bf16>(side_ * stride_)),
      lower_(array<bf16>(side_ * side_)),
      upper_(array<bf16>(side_ * side_)),
      square_(array<bf16>(rows * even_rows_ + kTile)),
      product_(array<float>(rows * std::max(rows, width) + kTile)),
      sums_(array<float>(pairs() + side_)),
      panels_(array<Bf16Pair>(std::max(ops::panels(rows) * in_panel_rows(stride_),
                                       ops::panels(width) * in_panel_rows(even_rows_)) /
                              2 * kPanelColumns)) {}

HLITE_INLINE void DotSample::pack_turned_inputs() {
  // Neighbours of a row are a pair of the transpose's column: moved as floats are, bit by bit.
  const auto* const from = reinterpret_cast<const float*>(inputs_.data());
  auto* const to = reinterpret_cast<float*>(panels_.data());
  const int64_t pair_columns = stride_ / 2, panel_pairs = in_panel_rows(stride_) / 2;
  for (int64_t row = 0; row < rows_; row += kPanelColumns)
    transpose({from + row * pair_columns, pair_columns}, std::min(kPanelColumns, side_ - row),
              pair_columns, {to + row * panel_pairs, kPanelColumns});
}

HLITE_INLINE void DotSample::pack_inputs() {
  const int64_t panel_pairs = in_panel_rows(even_rows_) / 2;
  for (int64_t column = 0; column < width_; column += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, width_ - column);
    for (int64_t p = 0; p < even_rows_ / 2; ++p) {
      const bf16* const upper = input(2 * p) + column;
      const bf16* const lower = upper + stride_;
      Bf16Pair* const to =
          panels_.data() + (column / kPanelColumns * panel_pairs + p) * kPanelColumns;
      for (int64_t j = 0; j < columns; ++j)
        to[j] = Bf16Pair{upper[j].bits} | Bf16Pair{lower[j].bits} << 16;
    }
  }
}

void DotSample::forward(bf16* out) {
  wide([&] { pack_turned_inputs(); });
  bf16_dot_piece({rows_, rows_, stride_}, inputs_.data(), panels(), product_.data());
  wide([&] {
    // The rest of a tile, beyond its row's pairs, is where later rows' are written.
    for (int64_t c = 1; c < rows_; ++c)
      for (int64_t r = 0; r < c; r += kTile)
        std::copy_n(product_.data() + c * rows_ + r, kTile, sums_.data() + triangle_row(c) + r);
    std::copy_n(inputs_.data(), width_, out);
    narrow(sums_.data(), pairs(), out + width_);
    out[width_ + pairs()] = bf16{};
  });
}

HLITE_INLINE void DotSample::mirror(const bf16* triangle) {
  // Tiles of the last rows would end after the triangle.
  const int64_t whole = pairs() - kTile;
  for (int64_t c = 1; c < rows_; ++c)
    for (int64_t r = 0; r < c; r += kTile) {
      const bf16* const from = triangle + triangle_row(c) + r;
      bf16* const to = lower_.data() + c * side_ + r;
      const auto most = static_cast<uint16_t>(std::min(kTile, c - r));
      if (triangle_row(c) + r <= whole)
        for (uint16_t j = 0; j < kTile; ++j) to[j].bits = j < most ? from[j].bits : uint16_t{0};
      else
        std::copy_n(from, most, to);
    }
  transpose({lower_.data(), side_}, side_, side_, {upper_.data(), side_});
  // The rest beyond a row's even number of columns is where the next row is written.
  for (int64_t r = 0; r < rows_; ++r)
    for (int64_t c = 0; c < even_rows_; c += kTile) {
      const uint16_t* const lower = &lower_[static_cast<size_t>(r * side_ + c)].bits;
      const uint16_t* const upper = &upper_[static_cast<size_t>(r * side_ + c)].bits;
      uint16_t* const to = &square_[static_cast<size_t>(r * even_rows_ + c)].bits;
#pragma GCC ivdep
      for (int64_t j = 0; j < kTile; ++j) to[j] = static_cast<uint16_t>(lower[j] | upper[j]);
    }
}

void DotSample::backward(const bf16* dout, bf16* dbottom, bf16* dslots) {
  wide([&] {
    pack_inputs();
    mirror(dout + width_);
  });
  bf16_dot_piece({rows_, width_, even_rows_}, square_.data(), panels(), product_.data());
  wide([&] {
    for (int64_t j = 0; j < width_; ++j)
      dbottom[j] = from_float<bf16>(product_[static_cast<size_t>(j)] + to_float(dout[j]));
    narrow(product_.data() + width_, (rows_ - 1) * width_, dslots);
  });
}

}  // namespace hlite::ops
