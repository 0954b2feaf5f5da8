#include "data_reader/parquet/parquet_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "data_reader/parquet/parquet_library.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::data::parquet {

void ColumnCursor::Close::operator()(Column* column) const { plugin().close_column(column); }
void ParquetFile::Close::operator()(File* file) const { plugin().close(file); }

ParquetFile::ParquetFile(std::string path) : path_(std::move(path)) {
  if (access(path_.c_str(), R_OK) != 0)
    raise<FileError>("{}: cannot open: {}", path_, std::strerror(errno));
  if (std::filesystem::is_directory(path_))
    raise<FileError>("{}: cannot open: expected a Parquet file, found a folder", path_);
  expect_no_pipe(path_);
  const Plugin& arrow = plugin();
  Failure why;
  File* file = nullptr;
  if (!arrow.open(&why, path_.c_str(), &file)) raise<DataError>("{}: {}", path_, why.text);
  file_.reset(file);
  rows_ = arrow.rows(file);
  created_by_ = arrow.created_by(file);
  for (int32_t c = 0; c < arrow.columns(file); ++c) {
    const ColumnInfo info = arrow.column(file, c);
    columns_.push_back({info.name, info.type, info.values, info.max_defined, info.empty_list,
                        info.readable, info.all_null});
  }
  int64_t rows = 0;
  for (int32_t g = 0; g < arrow.row_groups(file); ++g) {
    const RowGroupInfo info = arrow.row_group(file, g);
    if (info.rows < 0)
      raise<DataError>("{}: row group {}: expected a number of rows, found {}", path_, g,
                       info.rows);
    groups_.push_back({rows, info.rows, info.stored_bytes});
    rows += info.rows;
  }
  if (rows != rows_)
    raise<DataError>("{}: expected {} rows, as its footer says, found {} in its {} row groups",
                     path_, rows_, rows, groups_.size());
}

std::optional<int> ParquetFile::find(std::string_view name) const {
  const auto at =
      std::find_if(columns_.begin(), columns_.end(), [&](const auto& c) { return c.name == name; });
  if (at == columns_.end()) return std::nullopt;
  return static_cast<int>(at - columns_.begin());
}

std::string ParquetFile::column_names() const {
  constexpr size_t kMax = 50;
  std::string text;
  for (size_t c = 0; c < std::min(kMax, columns_.size()); ++c)
    text += fmt::format("{}\"{}\"", c == 0 ? "" : ", ", columns_[c].name);
  return columns_.size() > kMax ? fmt::format("{} and {} more", text, columns_.size() - kMax)
                                : text;
}

std::string ParquetFile::place(int group, int column) const {
  return fmt::format("{}: row group {}, column \"{}\"", path_, group,
                     columns_[static_cast<size_t>(column)].name);
}

ColumnCursor ParquetFile::open_column(int group, int column) const {
  ColumnCursor cursor;
  cursor.place_ = place(group, column);
  Failure why;
  Column* opened = nullptr;
  if (!plugin().open_column(&why, file_.get(), group, column, &opened))
    raise<DataError>("{}: {}", cursor.place_, why.text);
  cursor.column_.reset(opened);
  return cursor;
}

int64_t ParquetFile::stored_bytes(int group, int column) const {
  return plugin().stored_bytes(file_.get(), group, column);
}

Piece ColumnCursor::next(int64_t max_levels) {
  Failure why;
  Piece piece{};
  if (!plugin().next(&why, column_.get(), max_levels, &piece))
    raise<DataError>("{}: {}", place_, why.text);
  return piece;
}

}  // namespace hlite::data::parquet
