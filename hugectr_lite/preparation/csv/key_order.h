// The order of many 64-bit keys in a file, without sorting them: from which key on they are the
// last ones. Memory does not depend on their number.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/core/file.h"

namespace hlite::prep {

class KeyOrder {
 public:
  // `path`: the keys, 8 bytes each, in any order.
  explicit KeyOrder(const std::string& path);

  [[nodiscard]] int64_t rows() const { return rows_; }
  // Keys >= `from` are `rows` many. Equal keys stay together, so it is the number nearest to a
  // share of all that can be had, the smaller one of two as near, but neither none nor all of them
  // if there are two different keys. A number of 0 means that there are not.
  struct Cut {
    uint64_t from = 0;
    int64_t rows = 0;
  };
  [[nodiscard]] Cut last_rows(double share) const;
  // The next larger number of last rows. REQUIRES fewer than all rows in `cut`.
  [[nodiscard]] Cut one_key_more(const Cut& cut) const;

 private:
  // The key that has `rank` keys before it in order, and the keys below it and up to it.
  struct Place {
    uint64_t key = 0;
    int64_t below = 0, up_to = 0;
  };
  [[nodiscard]] Place key_at(int64_t rank) const;

  const ReadFile file_;
  const int64_t rows_;
};

}  // namespace hlite::prep
