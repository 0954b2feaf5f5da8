// Arrays that cross between Python and C++, by Python's buffer protocol. Nothing here knows the
// layout of NumPy's own objects, which differs between NumPy 1 and 2.
#pragma once

#include <pybind11/pybind11.h>

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/view.h"

namespace hlite::python {

// A C-contiguous array of T that Python owns. Throws Python's BufferError for another order of
// elements and DataError for another type; the package converts both beforehand.
template <typename T>
requires std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int64_t>
class InputArray {
 public:
  InputArray(const pybind11::object& array, const char* name) : name_(name) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0)
      throw pybind11::error_already_set();
    const std::string_view format = view_.format ? view_.format : "B";
    const bool fits = std::integral<T> ? format == "l" || format == "q"
                                       : format == pybind11::format_descriptor<T>::format();
    if (fits && view_.itemsize == sizeof(T)) return;
    std::string found(format);
    PyBuffer_Release(&view_);
    raise<DataError>("{}: expected an array of {}, found the type \"{}\"", name,
                     std::integral<T>         ? "int64"
                     : std::same_as<T, float> ? "float32"
                                              : "float64",
                     found);
  }
  ~InputArray() { PyBuffer_Release(&view_); }
  InputArray(const InputArray&) = delete;
  InputArray& operator=(const InputArray&) = delete;

  [[nodiscard]] std::span<const T> values() const {
    return {static_cast<const T*>(view_.buf), static_cast<size_t>(view_.len) / sizeof(T)};
  }
  // Rows are samples. An array of one dimension is a column if `is_column`.
  [[nodiscard]] Matrix<const T> matrix(bool is_column = false) const {
    if (view_.ndim != 2 && !(view_.ndim == 1 && is_column))
      raise<DataError>("{}: expected an array of 2 dimensions, found {}", name_, view_.ndim);
    return {values().data(), view_.shape[0], view_.ndim == 2 ? view_.shape[1] : 1};
  }

 private:
  Py_buffer view_{};
  const char* name_;
};

// An array that Python may read and write in place: `values`, or memory that `owner` keeps.
struct OutputArray {
  std::vector<pybind11::ssize_t> shape;
  std::vector<float> values = {};
  float* data = nullptr;  // without values
  pybind11::object owner = {};
  bool is_uint32 = false;  // the bits are integers

  [[nodiscard]] pybind11::buffer_info buffer() {
    constexpr pybind11::ssize_t kItem = sizeof(float);
    return {data ? data : values.data(),
            kItem,
            is_uint32 ? pybind11::format_descriptor<uint32_t>::format()
                      : pybind11::format_descriptor<float>::format(),
            static_cast<pybind11::ssize_t>(shape.size()),
            shape,
            pybind11::detail::c_strides(shape, kItem)};
  }
};

}  // namespace hlite::python
