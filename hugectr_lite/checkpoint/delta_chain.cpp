#include "hugectr_lite/checkpoint/delta_chain.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

#include "hugectr_lite/checkpoint/row_window.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::checkpoint {
namespace {
namespace fs = std::filesystem;

bool same(const FileSum& a, const FileSum& b) {
  return a.bytes == b.bytes && a.xxh3_64 == b.xxh3_64;
}

// A table while links are applied to it: for each row its key and where its values are. Layer 0 is
// the base, layer k the k-th link that is applied.
struct LayeredTable {
  struct Row {
    uint32_t key, layer, place;
  };
  std::vector<Row> rows;  // by key
};

struct Layer {
  std::unique_ptr<ReadFile> file;  // null: the base
  std::unique_ptr<SafetensorsReader> reader;
};

std::vector<LayeredTable::Row> rows_of(const std::vector<uint32_t>& keys, uint32_t layer) {
  std::vector<LayeredTable::Row> rows;
  rows.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i)
    rows.push_back({keys[i], layer, static_cast<uint32_t>(i)});
  return rows;
}

void check_ascending(const std::vector<uint32_t>& keys, const std::string& file,
                     const std::string& tensor) {
  for (size_t i = 1; i < keys.size(); ++i)
    if (keys[i] <= keys[i - 1])
      raise<DataError>("{}: tensor {}: expected ascending keys, found {} after {}", file, tensor,
                       keys[i], keys[i - 1]);
}

// The rows of the table that stay, with those of the link among them.
void apply(const SafetensorsReader& link, const std::string& table, uint32_t layer,
           LayeredTable& to) {
  const std::vector<uint32_t> changed = link.read_words(table + ".rows"),
                              gone = link.read_words(table + ".gone");
  check_ascending(changed, link.name(), table + ".rows");
  check_ascending(gone, link.name(), table + ".gone");
  const auto* const values = link.find(table);
  if (!values || values->shape.size() != 2 || values->shape[0] != std::ssize(changed))
    raise<DataError>("{}: tensor {}: expected {} rows, found {}", link.name(), table,
                     changed.size(),
                     values && !values->shape.empty() ? std::to_string(values->shape[0]) : "none");
  std::vector<LayeredTable::Row> rows;
  const std::vector<LayeredTable::Row> news = rows_of(changed, layer);
  auto next = news.begin();
  auto leaves = gone.begin();
  for (const LayeredTable::Row& row : to.rows) {
    while (next != news.end() && next->key < row.key) rows.push_back(*next++);
    while (leaves != gone.end() && *leaves < row.key) ++leaves;
    if (next != news.end() && next->key == row.key)
      rows.push_back(*next++);
    else if (leaves == gone.end() || *leaves != row.key)
      rows.push_back(row);
  }
  rows.insert(rows.end(), next, news.end());
  to.rows = std::move(rows);
}

LayeredTable layered_table(const std::vector<Layer>& layers, const std::string& table) {
  LayeredTable of;
  const SafetensorsReader& base = *layers[0].reader;
  const std::string keys = table + ".keys";
  if (base.find(keys)) {
    of.rows = rows_of(base.read_words(keys), 0);
  } else if (const auto* entry = base.find(table); entry && !entry->shape.empty()) {
    std::vector<uint32_t> numbers(static_cast<size_t>(entry->shape[0]));
    std::iota(numbers.begin(), numbers.end(), 0u);
    of.rows = rows_of(numbers, 0);
  }
  for (size_t k = 1; k < layers.size(); ++k)
    apply(*layers[k].reader, table, static_cast<uint32_t>(k), of);
  return of;
}

RowWindow window_of(const SafetensorsReader& file, const std::string& table) {
  const auto* const entry = file.find(table);
  if (!entry || entry->shape.size() != 2) return {{}, 0, 1};
  return {
      [&file, entry](int64_t first, std::span<float> out) { file.read_range(*entry, first, out); },
      entry->shape[0], entry->shape[1]};
}

void check_shape(const DeltaLink& last, const DeltaTensor& tensor, int64_t rows) {
  if (!tensor.shape.empty() && tensor.shape[0] == rows) return;
  raise<DataError>("{}: tensor {}: expected {} rows, found {} when the links are joined", last.path,
                   tensor.name, tensor.shape.empty() ? 0 : tensor.shape[0], rows);
}

TensorRef table_ref(const DeltaTensor& tensor, std::shared_ptr<const LayeredTable> table,
                    const std::vector<Layer>& layers) {
  struct Windows {
    std::vector<RowWindow> of_layer;
  };
  auto windows = std::make_shared<Windows>();
  for (const Layer& layer : layers)
    windows->of_layer.push_back(window_of(*layer.reader, tensor.name));
  return {.name = tensor.name,
          .shape = tensor.shape,
          .get =
              [table, windows, width = tensor.shape[1], name = tensor.name](int64_t first,
                                                                            std::span<float> out) {
                for_row_parts(width, first, std::ssize(out),
                              [&](int64_t row, int64_t column, int64_t n, int64_t at) {
                                const auto& of = table->rows[static_cast<size_t>(row)];
                                RowWindow& window = windows->of_layer[of.layer];
                                if (window.width() != width)
                                  raise<DataError>("tensor {}: expected width {}, found {}", name,
                                                   width, window.width());
                                std::copy_n(window.row(of.place) + column, n, out.data() + at);
                              });
              },
          .dtype = tensor.dtype};
}

TensorRef keys_ref(const DeltaTensor& tensor, std::shared_ptr<const LayeredTable> table) {
  return {.name = tensor.name,
          .shape = tensor.shape,
          .get =
              [table](int64_t first, std::span<float> out) {
                for (size_t i = 0; i < out.size(); ++i) {
                  const uint32_t key = table->rows[static_cast<size_t>(first) + i].key;
                  std::memcpy(&out[i], &key, sizeof(key));
                }
              },
          .dtype = tensor.dtype};
}

TensorRef whole_ref(const DeltaTensor& tensor, const SafetensorsReader& file) {
  const auto* const entry = file.find(tensor.name);
  if (!entry || entry->shape != tensor.shape || entry->dtype != tensor.dtype)
    raise<DataError>("{}: tensor {}: expected it in the shape of the manifest", file.name(),
                     tensor.name);
  return file.ref(*entry);
}

void check_file(const DeltaLink& link) {
  const ReadFile file(delta_file(link.path));
  if (file.size() != link.meta.file.bytes)
    raise<DataError>("{}: expected {} bytes (manifest.json), found {}", file.name(),
                     link.meta.file.bytes, file.size());
  if (const FileSum found = sum_of_file(file); !same(found, link.meta.file))
    raise<DataError>("{}: it is damaged: expected checksum {} (manifest.json), found {}",
                     file.name(), link.meta.file.digits(), found.digits());
}

}  // namespace

FileSum sum_of_file(const ByteSource& file) {
  Checksum checksum;
  read_pieces(file, [&](auto piece) { checksum.add(piece); });
  return checksum.sum();
}

std::string delta_link(const std::string& chain, int64_t iteration) {
  return fmt::format("{}/{:010}", chain, iteration);
}

std::vector<int64_t> link_iterations(const std::string& chain) {
  std::vector<int64_t> iterations;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(chain, error)) {
    const std::string name = entry.path().filename().string();
    const auto iteration = parse_number<int64_t>(name);
    if (iteration && *iteration >= 0 && fmt::format("{:010}", *iteration) == name)
      iterations.push_back(*iteration);
  }
  std::sort(iterations.begin(), iterations.end());
  return iterations;
}

DeltaChain::DeltaChain(std::string folder, int64_t until) : folder_(std::move(folder)) {
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error))
    raise<DataError>("{}: expected a folder of deltas, found something else", folder_);
  for (const int64_t iteration : link_iterations(folder_)) {
    if (iteration > until) break;
    DeltaLink link{.path = delta_link(folder_, iteration), .meta = {}};
    link.meta = read_delta_manifest(link.path);
    if (link.meta.iteration != iteration)
      raise<DataError>("{}: expected the delta of the iteration in its name, found that of {}",
                       link.path, link.meta.iteration);
    if (!links_.empty() && !same(links_.back().meta.after, link.meta.before))
      raise<DataError>(
          "{}: expected a delta from checksum {}, where {} ends, found one from {}: a link is "
          "missing or another chain's",
          link.path, links_.back().meta.after.digits(), links_.back().path,
          link.meta.before.digits());
    links_.push_back(std::move(link));
  }
}

void DeltaChain::verify() const {
  for (const DeltaLink& link : links_) check_file(link);
}

size_t DeltaChain::first_after(const FileSum& weights, const std::string& name) const {
  for (size_t i = 0; i < links_.size(); ++i)
    if (same(links_[i].meta.before, weights)) return i;
  if (!links_.empty() && same(links_.back().meta.after, weights)) return links_.size();
  raise<DataError>("{}: expected a chain with a delta from {}, whose checksum is {}, found {}",
                   folder_, name, weights.digits(),
                   links_.empty() ? "no delta" : "one from " + links_.front().meta.before.digits());
}

FileSum DeltaChain::join(const ByteSource& base, const std::string& path) const {
  const FileSum from = sum_of_file(base);
  const size_t first = first_after(from, base.name());
  std::vector<Layer> layers(1);
  layers[0].reader = std::make_unique<SafetensorsReader>(base);
  for (size_t i = first; i < links_.size(); ++i) {
    check_file(links_[i]);
    Layer& layer = layers.emplace_back();
    layer.file = std::make_unique<ReadFile>(delta_file(links_[i].path));
    layer.reader = std::make_unique<SafetensorsReader>(*layer.file);
  }
  std::vector<TensorRef> tensors;
  if (first == links_.size()) {
    tensors = layers[0].reader->refs();
  } else {
    const DeltaLink& last = links_.back();
    for (const DeltaTensor& tensor : last.meta.tensors) {
      const bool keys = tensor.dtype == DType::kU32 && tensor.name.ends_with(".keys");
      if (!keys && !is_table(tensor.name, tensor.shape)) {
        tensors.push_back(whole_ref(tensor, *layers.back().reader));
        continue;
      }
      const std::string name =
          keys ? tensor.name.substr(0, tensor.name.size() - std::strlen(".keys")) : tensor.name;
      auto table = std::make_shared<LayeredTable>(layered_table(layers, name));
      check_shape(last, tensor, std::ssize(table->rows));
      tensors.push_back(keys ? keys_ref(tensor, std::move(table))
                             : table_ref(tensor, std::move(table), layers));
    }
  }
  FileSum sum;
  replace_file(path, [&](const std::string& temporary) {
    WriteFile file(temporary);
    sum = write_safetensors(file, tensors);
    file.close();
    if (first < links_.size() && !same(sum, links_.back().meta.after))
      raise<DataError>("{}: expected the links to lead to checksum {} (manifest.json), found {}",
                       links_.back().path, links_.back().meta.after.digits(), sum.digits());
    if (first == links_.size() && !same(sum, from))
      raise<DataError>("{}: expected a file as train writes it, which could be written again",
                       base.name());
  });
  sync_directory(parent_directory(path));
  return sum;
}

int64_t DeltaChain::prune(const FileSum& weights, const std::string& name) const {
  const size_t first = first_after(weights, name);
  for (size_t i = 0; i < first; ++i) {
    std::error_code error;
    fs::remove_all(links_[i].path, error);
    if (error) raise<FileError>("{}: cannot remove it: {}", links_[i].path, error.message());
  }
  return static_cast<int64_t>(first);
}

}  // namespace hlite::checkpoint
