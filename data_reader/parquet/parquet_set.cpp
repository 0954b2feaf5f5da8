#include "data_reader/parquet/parquet_set.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "data_reader/no_samples.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data::parquet {
namespace {

namespace fs = std::filesystem;
using config::JsonNode;

std::string metadata_in(const fs::path& folder) {
  const fs::path path = folder / kMetadataName;
  return fs::exists(path) ? path.string() : std::string();
}

// The entries of file_stats: a file's name without its folder, and its number of rows.
using FileStats = std::vector<std::pair<std::string, int64_t>>;
FileStats read_file_stats(const std::string& path) {
  return config::as_data_error([&] {
    const JsonNode root = JsonNode::parse_file(path);
    FileStats rows;
    config::to_object(root);
    if (const JsonNode* files = root.find("file_stats"))
      for (const JsonNode& file : config::to_list(*files))
        rows.emplace_back(
            fs::path(config::to_string(config::member(file, "file_name"))).filename().string(),
            config::to_integer(config::member(file, "num_rows"), {.min = 0}));
    return rows;
  });
}

std::vector<std::string> files_of_folder(const fs::path& folder, const std::string& metadata) {
  std::vector<std::string> files;
  if (!metadata.empty())
    for (const auto& [name, rows] : read_file_stats(metadata))
      files.push_back((folder / name).string());
  if (!files.empty()) return files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".parquet")
      files.push_back(entry.path().string());
  if (files.empty())
    raise<DataError>("{}: expected files *.parquet, or a {} that names some, found none",
                     folder.string(), kMetadataName);
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<NamedColumns::Column> read_columns(const JsonNode& root, const char* key) {
  std::vector<NamedColumns::Column> columns;
  const JsonNode* list = root.find(key);
  if (!list) return columns;
  for (const JsonNode& node : config::to_list(*list)) {
    NamedColumns::Column& column = columns.emplace_back();
    config::read_object(node, [&](config::Block& s) {
      s.accept_others();
      s.text("col_name", &column.name, "", config::kRequired);
      s.integer("index", &column.index, {.min = -1});
    });
  }
  return columns;
}

NamedColumns columns_of(const config::DataConfig& config, const ParquetSource& source) {
  if (config.columns) {
    NamedColumns named{.labels = {}, .conts = {}, .cats = {}, .from = "layers[0].columns"};
    const auto copy = [](const std::vector<std::string>& names, auto& columns) {
      for (const std::string& name : names) columns.push_back({name, -1});
    };
    copy(config.columns->labels, named.labels);
    copy(config.columns->conts, named.conts);
    copy(config.columns->cats, named.cats);
    return named;
  }
  if (!source.metadata.empty()) return read_metadata_columns(source.metadata);
  raise<DataError>(
      "{}: expected a {} in its folder, or \"columns\" in layers[0], to say which columns are "
      "labels, conts and cats; found neither. The file has the columns {}",
      source.files.front(), kMetadataName, ParquetFile(source.files.front()).column_names());
}

void check_counts(const config::DataConfig& config, const NamedColumns& named) {
  const auto check = [&](const char* what, size_t found, int64_t expected, const char* key) {
    if (static_cast<int64_t>(found) != expected)
      raise<DataError>("{}: expected {} columns in \"{}\" ({}), found {}", named.from, expected,
                       what, key, found);
  };
  check("labels", named.labels.size(), config.label_width(),
        config.sample_weight ? "layers[0].label.label_dim, and the sample weight"
                             : "layers[0].label.label_dim");
  check("conts", named.conts.size(), config.dense_dim, "layers[0].dense.dense_dim");
  check("cats", named.cats.size(), config.key_layout().slots(), "the slots of layers[0].sparse");
}

int find_column(const ParquetFile& file, const NamedColumns::Column& wanted,
                const std::string& from) {
  const auto found = file.find(wanted.name);
  if (!found)
    raise<DataError>("{}: expected a column \"{}\", as {} says, found {}", file.path(), wanted.name,
                     from, file.column_names());
  if (wanted.index >= 0 && wanted.index != *found)
    raise<DataError>("{}: column \"{}\": expected it at index {}, as {} says, found it at {}",
                     file.path(), wanted.name, wanted.index, from, *found);
  return *found;
}

void check_number(const ParquetFile& file, int column) {
  const ParquetColumn& c = file.columns()[static_cast<size_t>(column)];
  if (!c.readable || c.is_list() || !c.is_number())
    raise<DataError>("{}: column \"{}\": expected numbers, found {}", file.path(), c.name, c.type);
}

void check_keys(const ParquetFile& file, int column, int64_t fixed_length, bool history) {
  const ParquetColumn& c = file.columns()[static_cast<size_t>(column)];
  if (!c.readable || !c.is_integer())
    raise<DataError>("{}: column \"{}\": expected integers or lists of them, found {}", file.path(),
                     c.name, c.type);
  if (history && !c.is_list())
    raise<DataError>("{}: column \"{}\": expected lists of keys (max_len), found {}", file.path(),
                     c.name, c.type);
  if (fixed_length > 1 && !c.is_list())
    raise<DataError>(
        "{}: column \"{}\": expected lists of {} keys (nnz_per_slot, is_fixed_length), found {}",
        file.path(), c.name, fixed_length, c.type);
}

}  // namespace

ParquetSource ParquetSource::find(const std::string& path) {
  ParquetSource source;
  const fs::path p(path);
  if (fs::is_directory(p) || p.filename() == kMetadataName) {
    const fs::path folder = fs::is_directory(p) ? p : p.parent_path();
    source.metadata = metadata_in(folder);
    source.files = files_of_folder(folder, source.metadata);
    return source;
  }
  const ReadFile file(path);
  char magic[4] = {};
  if (file.size() >= 4) file.read(0, std::as_writable_bytes(std::span(magic)));
  const bool list = std::string_view(magic, 4) != "PAR1" && p.extension() != ".parquet";
  source.files = list ? read_file_list(path) : std::vector<std::string>{path};
  source.metadata = metadata_in(fs::path(source.files.front()).parent_path());
  if (source.metadata.empty()) source.metadata = metadata_in(p.parent_path());
  return source;
}

NamedColumns read_metadata_columns(const std::string& path) {
  return config::as_data_error([&] {
    const JsonNode root = JsonNode::parse_file(path);
    config::to_object(root);
    return NamedColumns{.labels = read_columns(root, "labels"),
                        .conts = read_columns(root, "conts"),
                        .cats = read_columns(root, "cats"),
                        .from = path};
  });
}

ParquetSet::ParquetSet(const config::DataConfig& config, const std::string& path) {
  const ParquetSource source = ParquetSource::find(path);
  const NamedColumns named = columns_of(config, source);
  check_counts(config, named);
  columns_ = static_cast<int64_t>(named.labels.size() + named.conts.size() + named.cats.size());
  const FileStats stats = source.metadata.empty() ? FileStats() : read_file_stats(source.metadata);
  for (const std::string& file : source.files) {
    add(config, named, file);
    const std::string name = fs::path(file).filename().string();
    const auto expected =
        std::find_if(stats.begin(), stats.end(), [&](const auto& s) { return s.first == name; });
    if (const int64_t found = files_.back().parquet.rows();
        expected != stats.end() && expected->second != found)
      raise<DataError>("{}: expected {} rows, as {} says, found {}", file, expected->second,
                       source.metadata, found);
  }
  if (rows_ == 0)
    raise<NoSamplesError>("{}: expected at least one row, found none in {} files", path,
                          source.files.size());
}

void ParquetSet::add(const config::DataConfig& config, const NamedColumns& named,
                     const std::string& path) {
  File file{.parquet = ParquetFile(path), .columns = {}};
  const ParquetFile& parquet = file.parquet;
  for (const auto* numbers : {&named.labels, &named.conts})
    for (const auto& wanted : *numbers) {
      file.columns.push_back(find_column(parquet, wanted, named.from));
      check_number(parquet, file.columns.back());
    }
  size_t cat = 0;
  for (const config::SparseInputConfig& sparse : config.sparse)
    for (const int64_t hotness : sparse.hotness) {
      file.columns.push_back(find_column(parquet, named.cats[cat++], named.from));
      check_keys(parquet, file.columns.back(), sparse.is_fixed_length ? hotness : 0,
                 sparse.max_len > 0);
    }
  for (size_t g = 0; g < parquet.groups().size(); ++g) {
    const RowGroup& group = parquet.groups()[g];
    if (group.rows == 0) continue;
    groups_.push_back({files_.size(), static_cast<int>(g), rows_, group.rows});
    rows_ += group.rows;
  }
  files_.push_back(std::move(file));
}

int64_t ParquetSet::group_of(int64_t row) const {
  HLITE_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
  const auto next = std::upper_bound(groups_.begin(), groups_.end(), row,
                                     [](int64_t r, const Group& g) { return r < g.first_row; });
  return next - groups_.begin() - 1;
}

}  // namespace hlite::data::parquet
