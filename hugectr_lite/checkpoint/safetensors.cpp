#include "hugectr_lite/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "hugectr_lite/checkpoint/summing_sink.h"
#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"

namespace hlite::checkpoint {
namespace {
using config::JsonNode;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kPrefix = 8;                     // the header's length
constexpr int64_t kMaxHeader = 100'000'000;        // as the format's own implementation
constexpr int64_t kPieceElements = (8 << 20) / 4;  // moved at a time: 8 MiB of floats
constexpr const char* kMetadata = "__metadata__";  // the one name that is no tensor's

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

const config::Choices<DType> kDTypes{
    {"F32", DType::kF32}, {"U32", DType::kU32}, {"BF16", DType::kBf16}, {"F16", DType::kF16}};

const std::string& dtype_name(DType dtype) {
  return std::find_if(kDTypes.begin(), kDTypes.end(),
                      [=](const auto& known) { return known.second == dtype; })
      ->first;
}

// Returns true if a file's elements can be converted: floats of any size can, integers cannot.
bool converts(DType from, DType to) { return (from == DType::kU32) == (to == DType::kU32); }

// Calls f.operator()<T>() with the type of a narrow dtype.
template <typename F>
void with_narrow(DType dtype, F&& f) {
  if (dtype == DType::kBf16)
    f.template operator()<bf16>();
  else
    f.template operator()<fp16>();
}

// Calls piece(first, count) over [0, elements).
template <typename Piece>
void for_each_piece(int64_t elements, Piece&& piece) {
  for (int64_t first = 0; first < elements; first += kPieceElements)
    piece(first, std::min(kPieceElements, elements - first));
}

// The order of a file: elements of 16 bits come last, so that all others begin at a multiple of 4.
std::vector<const TensorRef*> file_order(std::span<const TensorRef> tensors) {
  std::vector<const TensorRef*> order;
  for (const TensorRef& t : tensors) order.push_back(&t);
  std::stable_partition(order.begin(), order.end(),
                        [](const TensorRef* t) { return dtype_bytes(t->dtype) == 4; });
  return order;
}

std::string header_text(std::span<const TensorRef* const> tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string> names{kMetadata};
  int64_t at = 0;
  for (const TensorRef* const tensor : tensors) {
    const TensorRef& t = *tensor;
    HLITE_CHECK(names.insert(t.name).second, "the name {} is taken", t.name);
    const int64_t end = at + dtype_bytes(t.dtype) * t.size();
    header.push_back(
        {t.name,
         {{"dtype", dtype_name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {at, end}}}});
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    raise("tensor names: expected UTF-8: {}", error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Elements of a shape found in a file; DataError where they would not fit into memory's range.
int64_t checked_size(const std::vector<int64_t>& shape, const std::string& where) {
  int64_t n = 1;
  for (const int64_t d : shape)
    if (__builtin_mul_overflow(n, d, &n) || n > INT64_MAX / 4)
      raise<DataError>("{}: expected at most 2^61 elements, found shape {}", where,
                       shape_text(shape));
  return n;
}
}  // namespace

FileSum write_safetensors(ByteSink& out, std::span<const TensorRef> tensors,
                          const Metadata& metadata) {
  const std::vector<const TensorRef*> order = file_order(tensors);
  const std::string header = header_text(order, metadata);
  SummingSink sink(out);
  const uint64_t length = header.size();
  sink.write(std::as_bytes(std::span(&length, 1)));
  sink.write(std::as_bytes(std::span(header)));
  std::vector<float> piece;
  for (const TensorRef* const tensor : order) {
    const TensorRef& t = *tensor;
    HLITE_CHECK(t.size() == 0 || t.data || t.get, "tensor {} has nothing to read from", t.name);
    for_each_piece(t.size(), [&](int64_t first, int64_t count) {
      std::span<const float> elements;
      if (t.data) {
        elements = {t.data + first, static_cast<size_t>(count)};
      } else {
        piece.resize(static_cast<size_t>(count));
        t.get(first, piece);
        elements = piece;
      }
      if (dtype_bytes(t.dtype) == sizeof(float)) return sink.write(std::as_bytes(elements));
      with_narrow(t.dtype, [&]<typename T>() {
        std::vector<T> narrowed(elements.size());
        narrow(elements.data(), count, narrowed.data());
        sink.write(std::as_bytes(std::span(narrowed)));
      });
    });
  }
  return sink.sum();
}

SafetensorsReader::SafetensorsReader(const ByteSource& file) : file_(file) {
  if (file.size() < kPrefix)
    raise<DataError>("{}: expected a safetensors file of at least {} bytes, found {}", file.name(),
                     kPrefix, file.size());
  uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const int64_t most = std::min(file.size() - kPrefix, kMaxHeader);
  if (length > static_cast<uint64_t>(most))
    raise<DataError>(
        "{}: expected a safetensors file, whose first 8 bytes are the length of its header, at "
        "most {}; found {}: another format, or a file that was cut short ({} bytes)",
        file.name(), most, length, file.size());
  std::string text(length, '\0');
  file.read(kPrefix, std::as_writable_bytes(std::span(text)));
  data_begin_ = kPrefix + static_cast<int64_t>(length);
  parse_header(text);
  check_ranges();
}

SafetensorsReader::Entry SafetensorsReader::parse_entry(const std::string& name,
                                                        const JsonNode& value) const {
  Entry entry;
  entry.name = name;
  std::vector<int64_t> offsets;
  config::read_object(value, [&](config::Block& s) {
    s.choice("dtype", &entry.dtype, kDTypes, "", config::kRequired);
    s.integers("shape", &entry.shape, {.min = 0}, "", config::kRequired);
    if (s.integers("data_offsets", &offsets, {.min = 0}, "", config::kRequired) &&
        offsets.size() != 2)
      s.expected("data_offsets", "a list of 2");
  });
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::string where = fmt::format("{}: tensor {}", file_.name(), name);
  const int64_t bytes = dtype_bytes(entry.dtype) * checked_size(entry.shape, where);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    raise<DataError>("{}: expected {} bytes for shape {}, found data_offsets [{},{}]", where, bytes,
                     shape_text(entry.shape), entry.begin, entry.end);
  return entry;
}

void SafetensorsReader::parse_header(const std::string& text) {
  config::as_data_error([&] {
    const JsonNode header = JsonNode::parse(text, file_.name() + ": header");
    for (const auto& [name, value] : config::to_object(header)) {
      if (name != kMetadata) {
        entries_.push_back(parse_entry(name, value));
        continue;
      }
      for (const auto& [key, text_node] : config::to_object(value))
        metadata_[key] = config::to_string(text_node);
    }
  });
}

void SafetensorsReader::check_ranges() {
  // Empty tensors before the one that starts where they lie.
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t at = 0;
  for (Entry& e : entries_) {
    if (e.begin != at)
      raise<DataError>("{}: tensor {}: expected its data to begin at {}, found {} ({})",
                       file_.name(), e.name, at, e.begin, e.begin < at ? "overlap" : "gap");
    at = e.end;
  }
  const int64_t data = file_.size() - data_begin_;
  if (at != data)
    raise<DataError>("{}: expected {} bytes of tensors{}, found {}", file_.name(), at,
                     entries_.empty() ? "" : fmt::format(" (the last is {})", entries_.back().name),
                     data);
  for (Entry& e : entries_) {
    e.begin += data_begin_;
    e.end += data_begin_;
  }
}

const SafetensorsReader::Entry* SafetensorsReader::find(const std::string& name) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return e.name == name; });
  return it == entries_.end() ? nullptr : &*it;
}

const SafetensorsReader::Entry& SafetensorsReader::entry_of(const std::string& name,
                                                            DType dtype) const {
  const Entry* e = find(name);
  if (!e) raise<DataError>("{}: tensor {}: expected it, found none", file_.name(), name);
  if (!converts(e->dtype, dtype))
    raise<DataError>("{}: tensor {}: expected dtype {}, found {}", file_.name(), name,
                     dtype_name(dtype), dtype_name(e->dtype));
  return *e;
}

void SafetensorsReader::read_elements(const Entry& e, int64_t first, std::span<float> out,
                                      Checksum* sum) const {
  const int64_t size = dtype_bytes(e.dtype);
  const auto read = [&](std::span<std::byte> bytes) {
    file_.read(e.begin + size * first, bytes);
    if (sum) sum->add(bytes);
  };
  if (size == sizeof(float)) return read(std::as_writable_bytes(out));
  with_narrow(e.dtype, [&]<typename T>() {
    std::vector<T> elements(out.size());
    read(std::as_writable_bytes(std::span(elements)));
    widen(elements.data(), std::ssize(out), out.data());
  });
}

void SafetensorsReader::read(const std::string& name, std::span<float> out) const {
  const Entry& e = entry_of(name, DType::kF32);
  const auto found = static_cast<size_t>((e.end - e.begin) / dtype_bytes(e.dtype));
  if (found != out.size())
    raise<DataError>("{}: tensor {}: expected {} elements, found {}", file_.name(), name,
                     out.size(), found);
  for_each_piece(std::ssize(out), [&](int64_t first, int64_t count) {
    read_elements(e, first, out.subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
  });
}

std::vector<uint32_t> SafetensorsReader::read_words(const std::string& name) const {
  const Entry& e = entry_of(name, DType::kU32);
  std::vector<uint32_t> words(static_cast<size_t>(e.end - e.begin) / 4);
  for_each_piece(std::ssize(words), [&](int64_t first, int64_t count) {
    file_.read(e.begin + 4 * first, std::as_writable_bytes(std::span(words).subspan(
                                        static_cast<size_t>(first), static_cast<size_t>(count))));
  });
  return words;
}

// Throws DataError where names, shapes or types are not those of the file.
SafetensorsReader::Places SafetensorsReader::places_of(std::span<const TensorRef> into) const {
  Places wanted;
  for (const TensorRef& t : into)
    HLITE_CHECK(wanted.emplace(t.name, &t).second, "tensor {} is asked for twice", t.name);

  // All differences at once: they usually share one cause.
  std::string differences;
  Places missing = wanted;
  for (const Entry& e : entries_) {
    missing.erase(e.name);
    const auto it = wanted.find(e.name);
    if (it == wanted.end())
      differences +=
          fmt::format("\n  {}: expected no such tensor, found {}", e.name, shape_text(e.shape));
    else if (it->second->shape != e.shape)
      differences += fmt::format("\n  {}: expected {}, found {}", e.name,
                                 shape_text(it->second->shape), shape_text(e.shape));
    else if (!converts(e.dtype, it->second->dtype))
      differences += fmt::format("\n  {}: expected dtype {}, found {}", e.name,
                                 dtype_name(it->second->dtype), dtype_name(e.dtype));
  }
  for (const auto& [name, t] : missing)
    differences += fmt::format("\n  {}: expected {}, found none", name, shape_text(t->shape));
  if (!differences.empty())
    raise<DataError>("{}: its tensors are not those of the model:{}", file_.name(), differences);
  return wanted;
}

void SafetensorsReader::read_tensor(const Entry& entry, const TensorRef& into,
                                    Checksum* sum) const {
  HLITE_CHECK(into.size() == 0 || into.data || into.put, "tensor {} has nowhere to go", into.name);
  std::vector<float> piece;
  for_each_piece(into.size(), [&](int64_t first, int64_t count) {
    std::span<float> elements;
    if (into.data) {
      elements = {into.data + first, static_cast<size_t>(count)};
    } else {
      piece.resize(static_cast<size_t>(count));
      elements = piece;
    }
    read_elements(entry, first, elements, sum);
    if (!into.data) into.put(first, elements);
  });
}

void SafetensorsReader::read_others(std::span<const TensorRef> into,
                                    const std::set<std::string>& there) const {
  const Places places = places_of(into);
  for (const Entry& e : entries_)
    if (!there.contains(e.name)) read_tensor(e, *places.at(e.name), nullptr);
}

TensorRef SafetensorsReader::ref(const Entry& entry) const {
  return {
      .name = entry.name,
      .shape = entry.shape,
      .get = [this, entry](int64_t first, std::span<float> out) { read_range(entry, first, out); },
      .dtype = entry.dtype};
}

std::vector<TensorRef> SafetensorsReader::refs() const {
  std::vector<TensorRef> refs;
  for (const Entry& entry : entries_) refs.push_back(ref(entry));
  return refs;
}

FileSum SafetensorsReader::read_all(std::span<const TensorRef> into) const {
  const Places places = places_of(into);
  Checksum checksum;
  std::vector<std::byte> head(static_cast<size_t>(data_begin_));
  file_.read(0, head);
  checksum.add(head);
  for (const Entry& e : entries_) read_tensor(e, *places.at(e.name), &checksum);
  return checksum.sum();
}

}  // namespace hlite::checkpoint
