#include "hugectr_lite/python/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/csv/csv_record.h"
#include "hugectr_lite/python/arrays.h"

namespace hlite::python {

namespace py = pybind11;
using prep::TableColumn;

namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;  // of text, at least, in a write

struct NamedKind {
  std::string_view name;
  TableColumn::Kind kind;
  size_t size;  // of an element
};
constexpr std::array kKinds{NamedKind{"int64", TableColumn::Kind::kInt64, 8},
                            NamedKind{"uint64", TableColumn::Kind::kUint64, 8},
                            NamedKind{"float32", TableColumn::Kind::kFloat, 4},
                            NamedKind{"float64", TableColumn::Kind::kDouble, 8},
                            NamedKind{"bool", TableColumn::Kind::kBool, 1},
                            NamedKind{"text", TableColumn::Kind::kText, 0},
                            NamedKind{"none", TableColumn::Kind::kNone, 0}};

std::string_view text_of(const py::handle& value) {
  if (value.is_none()) return {};
  py::ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (!bytes) throw py::error_already_set();
  return {bytes, static_cast<size_t>(size)};
}

}  // namespace

Table::Table(const py::list& columns) : held_(columns) {
  try {
    for (const py::handle& column : columns) {
      const auto tuple = py::reinterpret_borrow<py::tuple>(column);
      const auto name = tuple[0].cast<std::string>();
      const auto* const kind = std::find_if(kKinds.begin(), kKinds.end(),
                                            [&](const NamedKind& k) { return k.name == name; });
      if (kind == kKinds.end()) raise<DataError>("expected a kind of column, found {}", name);
      TableColumn& to = columns_.emplace_back(TableColumn{.kind = kind->kind});
      if (kind->size > 0) to.values = buffer_of(tuple[1], kind->size).buf;
      if (to.kind == TableColumn::Kind::kText) {
        for (const py::handle& value : py::reinterpret_borrow<py::list>(tuple[1]))
          to.texts.push_back(text_of(value));
        check_rows(std::ssize(to.texts));
      }
      if (!tuple[2].is_none()) to.missing = static_cast<const uint8_t*>(buffer_of(tuple[2], 1).buf);
    }
  } catch (...) {
    for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
    throw;
  }
  rows_ = std::max<int64_t>(rows_, 0);
}

Table::~Table() {
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
}

const Py_buffer& Table::buffer_of(const py::handle& array, size_t size) {
  Py_buffer view{};
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0)
    throw py::error_already_set();
  buffers_.push_back(view);
  if (static_cast<size_t>(view.itemsize) != size)
    raise<DataError>("expected elements of {} bytes, found {}", size, view.itemsize);
  check_rows(view.len / view.itemsize);
  return buffers_.back();
}

void Table::check_rows(int64_t rows) {
  if (rows_ >= 0 && rows != rows_)
    raise<DataError>("expected columns of {} rows, found {}", rows_, rows);
  rows_ = rows;
}

void write_table(const std::string& path, const py::list& columns, const py::object& rows) {
  const Table table(columns);
  const InputArray<int64_t> row_numbers(rows, "rows");
  const py::gil_scoped_release released;
  WriteFile file(path);
  std::string text;
  char digits[kNumberBytes];
  const auto flush = [&] {
    file.write(std::as_bytes(std::span(text)));
    text.clear();
  };
  for (const int64_t row : row_numbers.values()) {
    for (const TableColumn& column : table.columns()) {
      if (&column != &table.columns().front()) text += ',';
      prep::append_csv_field(column.field(row, digits), text);
    }
    text += '\n';
    if (text.size() >= kWriteBytes) flush();
  }
  flush();
  file.close();
}

py::list inputs_of(const prep::CsvSchema& schema, const std::vector<std::string>& header) {
  py::list inputs;
  for (const prep::FeatureInput& input : schema.inputs()) {
    const prep::CsvColumn& column = input.column;
    py::list names;
    const auto index = static_cast<size_t>(column.index);
    if (index < header.size()) names.append(header[index]);
    if (column.name != fmt::format("column {}", column.index))
      names.append(column.name);
    else if (header.empty())
      names.append(std::to_string(column.index));
    const std::string kind = !input.date_format.empty() ? "date " + input.date_format
                             : input.is_number          ? "numbers"
                                                        : "text";
    inputs.append(py::make_tuple(std::move(names), column.index, kind,
                                 input.type ? prep::type_name(*input.type) : ""));
  }
  return inputs;
}

}  // namespace hlite::python
