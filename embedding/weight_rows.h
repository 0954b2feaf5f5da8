// WeightRows: rows of weights as a table stores them, in float or in 16 bits
// (solver.table_precision).
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

template <typename T>
inline constexpr FloatType kFloatTypeOf = std::is_same_v<T, bf16>   ? FloatType::kBf16
                                          : std::is_same_v<T, fp16> ? FloatType::kFp16
                                                                    : FloatType::kFloat;

// A Matrix whose element type is a value. `Byte` is std::byte, or const std::byte for rows that are
// only read. Matrices of float, bf16 and fp16 convert to it.
template <typename Byte>
class BasicWeightRows {
  static constexpr bool kConst = std::is_const_v<Byte>;
  template <typename T>
  using Element = std::conditional_t<kConst, const T, T>;

 public:
  BasicWeightRows() = default;
  HLITE_HD BasicWeightRows(Byte* data, int64_t rows, int64_t width, FloatType type)
      : bytes_(data, rows, width), type_(type) {}
  template <typename T>
  HLITE_HD BasicWeightRows(T* data, int64_t rows, int64_t width)
      : BasicWeightRows(Matrix<T>(data, rows, width)) {}
  template <typename T>
  requires(kConst || !std::is_const_v<T>) HLITE_HD
      BasicWeightRows(const Matrix<T>& rows)  // NOLINT: implicit on purpose
      : BasicWeightRows(reinterpret_cast<Byte*>(rows.data()), rows.dim(0), rows.dim(1),
                        kFloatTypeOf<std::remove_const_t<T>>) {}
  template <typename Other>
  requires(kConst && !std::is_const_v<Other>) HLITE_HD
      BasicWeightRows(const BasicWeightRows<Other>& rows)  // NOLINT: implicit on purpose
      : BasicWeightRows(rows.bytes(), rows.dim(0), rows.dim(1), rows.type()) {}

  [[nodiscard]] HLITE_HD FloatType type() const { return type_; }
  [[nodiscard]] HLITE_HD int64_t dim(int r) const { return bytes_.dim(r); }
  [[nodiscard]] HLITE_HD int64_t size() const { return bytes_.size(); }  // elements
  [[nodiscard]] std::string shape() const { return bytes_.shape(); }
  [[nodiscard]] HLITE_HD Byte* bytes() const { return bytes_.data(); }
  [[nodiscard]] HLITE_HD int64_t row_bytes() const {
    return dim(1) * (type_ == FloatType::kFloat ? kFloatBytes : int64_t{sizeof(bf16)});
  }
  [[nodiscard]] Byte* row_at(int64_t i) const { return bytes() + i * row_bytes(); }
  // REQUIRES that T is their type.
  template <typename T>
  [[nodiscard]] HLITE_HD Matrix<Element<T>> as() const {
    assert(type_ == kFloatTypeOf<T>);
    return {reinterpret_cast<Element<T>*>(bytes_.data()), dim(0), dim(1)};
  }

  [[nodiscard]] HLITE_HD Element<float>* floats() const { return as<float>().data(); }

 private:
  Matrix<Byte> bytes_;  // the shape counts elements
  FloatType type_ = FloatType::kFloat;
};

using WeightRows = BasicWeightRows<std::byte>;
using ConstWeightRows = BasicWeightRows<const std::byte>;

}  // namespace hlite::embedding
