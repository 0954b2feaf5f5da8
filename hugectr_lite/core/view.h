// View<T, R>: a pointer and a shape, row-major, trivially copyable, not owning.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <type_traits>

#include "hugectr_lite/core/host_device.h"

namespace hlite {

template <typename T, int R>
class View {
  static_assert(R >= 1);

 public:
  View() = default;
  template <typename... Dims>
  requires(sizeof...(Dims) == R) HLITE_HD View(T* data, Dims... dims)
      : data_(data), dims_{static_cast<int64_t>(dims)...} {}
  // View<float> converts to View<const float>.
  template <typename U>
  requires(std::is_same_v<const U, T>) HLITE_HD View(const View<U, R>& other)
      : data_(other.data()) {  // NOLINT: implicit on purpose
    for (int r = 0; r < R; ++r) dims_[r] = other.dim(r);
  }

  HLITE_HD T* data() const { return data_; }
  HLITE_HD int64_t dim(int r) const { return dims_[r]; }
  HLITE_HD int64_t size() const {
    int64_t n = 1;
    for (int r = 0; r < R; ++r) n *= dims_[r];
    return n;
  }
  // Elements in one entry of the leading dimension.
  HLITE_HD int64_t stride() const {
    int64_t n = 1;
    for (int r = 1; r < R; ++r) n *= dims_[r];
    return n;
  }

  template <typename... Index>
  requires(sizeof...(Index) == R) HLITE_HD T& operator()(Index... index) const {
    const int64_t at[R] = {static_cast<int64_t>(index)...};
    int64_t offset = 0;
    for (int r = 0; r < R; ++r) {
      assert(at[r] >= 0 && at[r] < dims_[r]);
      offset = offset * dims_[r] + at[r];
    }
    return data_[offset];
  }

  HLITE_HD T* row(int64_t i) const { return data_ + i * stride(); }
  // Entries [begin, end) of the leading dimension.
  HLITE_HD View rows(int64_t begin, int64_t end) const {
    assert(begin >= 0 && begin <= end && end <= dims_[0]);
    View v = *this;
    v.data_ = data_ + begin * stride();
    v.dims_[0] = end - begin;
    return v;
  }

  std::string shape() const {
    std::string s = "[";
    for (int r = 0; r < R; ++r) {
      if (r > 0) s += ',';
      s += std::to_string(dims_[r]);
    }
    s += ']';
    return s;
  }

 private:
  T* data_ = nullptr;
  int64_t dims_[R] = {};
};

template <typename T>
using Vector = View<T, 1>;
template <typename T>
using Matrix = View<T, 2>;

// The same as parameters of a function f<T>(): T is not deduced from them, so that a View<float> is
// taken where ViewOf<const T> is asked for.
template <typename T, int R>
using ViewOf = View<std::type_identity_t<T>, R>;
template <typename T>
using VectorOf = ViewOf<T, 1>;
template <typename T>
using MatrixOf = ViewOf<T, 2>;

}  // namespace hlite
