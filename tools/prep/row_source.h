// Prepared rows, between the stage that numbers keys and the stage that writes files: whoever has
// rows implements RowSource, write_split() (tools/prep/split_writer.h) turns them into files.
#pragma once

#include <cstdint>

namespace hlite::tools {

// A row is 1 + dense + slots 32-bit words: the label (0 or 1, an integer), the dense values (int32,
// or float32 where dense_is_float), one id a slot.
struct RowShape {
  int dense = 0;
  int slots = 0;
  bool dense_is_float = false;
  [[nodiscard]] int words() const { return 1 + dense + slots; }
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  [[nodiscard]] virtual const RowShape& shape() const = 0;
  [[nodiscard]] virtual int64_t rows() const = 0;
  // Rows [first, first + count), row after row, words() words each. Several threads may call it at
  // once. Throws FileError.
  virtual void read(int64_t first, int64_t count, uint32_t* out) const = 0;
};

}  // namespace hlite::tools
