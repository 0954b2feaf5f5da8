// DLRM's interaction (interaction.h) of one sample in bf16, by dot products of bf16 (bf16_dot.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/bf16_panels.h"

namespace hlite::ops {

// The inputs of a sample, one below the other, and what is made of them. Grown once a thread.
// REQUIRES has_bf16_dot().
class DotSample {
 public:
  // rows: inputs, the bottom vector's first.
  DotSample(int64_t rows, int64_t width);
  [[nodiscard]] bool fits(int64_t rows, int64_t width) const {
    return rows == rows_ && width == width_;
  }
  // The place of input r, [width].
  bf16* input(int64_t r) { return inputs_.data() + r * stride_; }

  // The others, from [rows - 1, width].
  void set_slots(const bf16* from) {
    if (stride_ == width_) {
      std::copy_n(from, (rows_ - 1) * width_, input(1));
      return;
    }
    for (int64_t r = 1; r < rows_; ++r) std::copy_n(from + (r - 1) * width_, width_, input(r));
  }

  // out [width + pairs + 1]: a row of interaction_forward() for these inputs.
  void forward(bf16* out);
  // Computes interaction_backward() from dout [width + pairs + 1]: gradients of the first input and
  // of the others, packed.
  void backward(const bf16* dout, bf16* dbottom, bf16* dslots);

 private:
  [[nodiscard]] int64_t pairs() const { return rows_ * (rows_ - 1) / 2; }
  [[nodiscard]] const bf16* panels() const { return reinterpret_cast<const bf16*>(panels_.data()); }
  // Fill panels() with the transpose of inputs_, or with themselves, as the right factor of a
  // product; as far as bf16_dot_piece() reads it.
  void pack_turned_inputs();
  void pack_inputs();
  // Fills square_ with the gradient of pair (r, c) at both places of it, from a triangle of them.
  void mirror(const bf16* triangle);

  int64_t rows_, width_;
  int64_t even_rows_, stride_;       // rows and width, made even
  int64_t side_;                     // rows, in whole tiles of a transpose
  std::vector<bf16> inputs_;         // [side, stride], zeros beyond rows and width
  std::vector<bf16> lower_, upper_;  // [side, side]
  std::vector<bf16> square_;         // [rows, even rows]
  std::vector<float> product_;       // [rows, rows] or [rows, width]
  std::vector<float> sums_;          // of pairs
  std::vector<Bf16Pair> panels_;
};

}  // namespace hlite::ops
