#include "hugectr_lite/checkpoint/delta.h"

#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/checkpoint/manifest_sum.h"
#include "hugectr_lite/checkpoint/row_window.h"
#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::checkpoint {
namespace {
namespace fs = std::filesystem;
using config::kRequired;
using nlohmann::ordered_json;

constexpr const char *kDeltaFormat = "hugectr_lite delta", *kDeltaFile = "delta.safetensors",
                     *kDeltaManifest = "manifest.json";
constexpr int64_t kDeltaVersion = 1, kMaxDeltaManifest = 64 << 20;

const config::Choices<DType>& dtype_names() {
  static const config::Choices<DType> names = {
      {"F32", DType::kF32}, {"U32", DType::kU32}, {"BF16", DType::kBf16}, {"F16", DType::kF16}};
  return names;
}

// Takes bytes whose sum alone is wanted.
class DiscardingSink final : public ByteSink {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  void write(std::span<const std::byte>) override {}
  void close() override {}

 private:
  std::string name_ = "no file";
};

std::vector<uint32_t> words_of(const TensorRef& tensor) {
  std::vector<uint32_t> words(static_cast<size_t>(tensor.size()));
  const std::span<float> out(reinterpret_cast<float*>(words.data()), words.size());
  if (!words.empty()) tensor.get(0, out);
  return words;
}

std::vector<uint32_t> first_numbers(int64_t n) {
  std::vector<uint32_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

RowWindow window_of(const TensorRef& table) {
  const auto read = [&table](int64_t first, std::span<float> out) {
    if (table.data)
      std::copy_n(table.data + first, out.size(), out.begin());
    else
      table.get(first, out);
  };
  return {read, table.shape[0], table.shape[1]};
}

// The difference of a table from the one in the base file.
struct TableDelta {
  std::vector<uint32_t> rows, gone;  // keys
  std::vector<uint32_t> places;      // of `rows` in the table
};

TableDelta compare_table(const SafetensorsReader& base, const TensorRef& table,
                         const std::vector<uint32_t>& keys) {
  TableDelta delta;
  const auto* entry = base.find(table.name);
  const bool known = entry && entry->shape.size() == 2 && entry->shape[1] == table.shape[1] &&
                     entry->dtype == table.dtype;
  const std::string keys_name = table.name + ".keys";
  const std::vector<uint32_t> before = !known                 ? std::vector<uint32_t>()
                                       : base.find(keys_name) ? base.read_words(keys_name)
                                                              : first_numbers(entry->shape[0]);
  RowWindow now = window_of(table);
  RowWindow then([&](int64_t first, std::span<float> out) { base.read_range(*entry, first, out); },
                 std::ssize(before), table.shape[1]);
  const auto bytes = static_cast<size_t>(table.shape[1]) * sizeof(float);
  size_t old = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    for (; old < before.size() && before[old] < keys[i]; ++old) delta.gone.push_back(before[old]);
    const bool was = old < before.size() && before[old] == keys[i];
    if (!was || std::memcmp(now.row(static_cast<int64_t>(i)), then.row(static_cast<int64_t>(old)),
                            bytes) != 0) {
      delta.rows.push_back(keys[i]);
      delta.places.push_back(static_cast<uint32_t>(i));
    }
    if (was) ++old;
  }
  delta.gone.insert(delta.gone.end(), before.begin() + static_cast<std::ptrdiff_t>(old),
                    before.end());
  return delta;
}

TensorRef words_ref(std::string name, std::vector<uint32_t> words) {
  const auto held = std::make_shared<const std::vector<uint32_t>>(std::move(words));
  return {.name = std::move(name),
          .shape = {std::ssize(*held)},
          .get =
              [held](int64_t first, std::span<float> out) {
                if (!out.empty()) std::memcpy(out.data(), held->data() + first, out.size_bytes());
              },
          .dtype = DType::kU32};
}

// The listed rows of a table. `table` must outlive it.
TensorRef rows_ref(const TensorRef& table, std::vector<uint32_t> places) {
  struct Listed {
    RowWindow window;
    std::vector<uint32_t> places;
  };
  const auto listed = std::make_shared<Listed>(Listed{window_of(table), std::move(places)});
  return {.name = table.name,
          .shape = {std::ssize(listed->places), table.shape[1]},
          .get =
              [listed](int64_t first, std::span<float> out) {
                for_row_parts(listed->window.width(), first, std::ssize(out),
                              [&](int64_t row, int64_t column, int64_t n, int64_t at) {
                                const float* const values =
                                    listed->window.row(listed->places[static_cast<size_t>(row)]);
                                std::copy_n(values + column, n, out.data() + at);
                              });
              },
          .dtype = table.dtype};
}

ordered_json json_of(const FileSum& sum) {
  return {{"bytes", sum.bytes}, {"xxh3_64", sum.digits()}};
}

void declare_sum(config::Block& s, const char* key, FileSum& sum) {
  auto of = s.object(key, "", kRequired);
  if (!of) return;
  of->integer("bytes", &sum.bytes, {.min = 0}, "", kRequired);
  of->value("xxh3_64", kRequired, [&](const config::JsonNode& node) {
    const auto value = parse_number<uint64_t>(config::to_string(node), 16);
    if (!value) config::fail_expected(node, "an unsigned 64-bit number in base 16");
    sum.xxh3_64 = *value;
  });
}

std::string manifest_of(const DeltaMeta& meta) {
  ordered_json m = {{"format", kDeltaFormat},           {"version", kDeltaVersion},
                    {"program", hlite::kVersion},       {"iteration", meta.iteration},
                    {"before", json_of(meta.before)},   {"after", json_of(meta.after)},
                    {"tensors", ordered_json::array()}, {"file", json_of(meta.file)}};
  for (const DeltaTensor& t : meta.tensors)
    for (const auto& [name, dtype] : dtype_names())
      if (dtype == t.dtype)
        m["tensors"].push_back({{"name", t.name}, {"dtype", name}, {"shape", t.shape}});
  return with_sum(std::move(m));
}

void write_text(const std::string& path, const std::string& text) {
  WriteFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.close();
}

}  // namespace

bool is_table(const std::string& name, const std::vector<int64_t>& shape) {
  const size_t at = name.rfind(".table_");
  return shape.size() == 2 && at != std::string::npos &&
         name.find_first_not_of("0123456789", at + 7) == std::string::npos;
}

namespace {
bool same_sum(const FileSum& a, const FileSum& b) {
  return a.bytes == b.bytes && a.xxh3_64 == b.xxh3_64;
}

[[noreturn]] void fail_to_follow(const DeltaChain& chain, const std::string& base,
                                 const FileSum& before) {
  const DeltaMeta& last = chain.links().back().meta;
  raise<DataError>(
      "{}: expected a chain that ends in {}, with checksum {}, found one that ends in "
      "iteration {} with {}",
      chain.folder(), base, before.digits(), last.iteration, last.after.digits());
}
}  // namespace

void check_next_link(const DeltaChain& chain, const std::string& base, const FileSum& before) {
  if (chain.links().empty()) return;
  const DeltaMeta& last = chain.links().back().meta;
  if (!same_sum(last.after, before) && !same_sum(last.before, before))
    fail_to_follow(chain, base, before);
}

std::string delta_file(const std::string& link) { return link + "/" + kDeltaFile; }

DeltaSize write_delta(const std::string& chain, int64_t iteration, const ByteSource& base,
                      const FileSum& before, std::span<const TensorRef> weights) {
  const DeltaChain existing(chain);
  check_next_link(existing, base.name(), before);
  if (const FileSum found = sum_of_file(base); found.xxh3_64 != before.xxh3_64)
    raise<DataError>("{}: expected the weights that the run began from, with checksum {}, found {}",
                     base.name(), before.digits(), found.digits());
  DeltaMeta meta{.iteration = iteration, .before = before, .after = {}, .file = {}, .tensors = {}};
  DiscardingSink none;
  meta.after = write_safetensors(none, weights);

  const SafetensorsReader file(base);
  DeltaSize size{.rows = 0, .gone = 0, .bytes = 0, .full_bytes = meta.after.bytes};
  if (!existing.links().empty()) {
    const DeltaLink& last = existing.links().back();
    // Of a run that was killed after it had written the link.
    size.was_there = last.meta.iteration == iteration && same_sum(last.meta.after, meta.after);
    if (size.was_there) {
      existing.verify();
      size.bytes = last.meta.file.bytes;
      return size;
    }
    if (last.meta.iteration >= iteration)
      raise<DataError>("{}: expected a chain that ends before iteration {}, found a link of {}",
                       chain, iteration, last.meta.iteration);
    if (!same_sum(last.meta.after, before)) fail_to_follow(existing, base.name(), before);
  }
  std::vector<TensorRef> tensors;
  for (const TensorRef& t : weights) {
    meta.tensors.push_back({t.name, t.dtype, t.shape});
    if (!is_table(t.name, t.shape)) {
      const bool keys = t.name.ends_with(".keys") && t.dtype == DType::kU32;
      if (!keys) tensors.push_back(t);
      continue;
    }
    const auto keys = std::find_if(weights.begin(), weights.end(), [&](const TensorRef& of) {
      return of.name == t.name + ".keys";
    });
    TableDelta delta =
        compare_table(file, t, keys == weights.end() ? first_numbers(t.shape[0]) : words_of(*keys));
    size.rows += std::ssize(delta.rows);
    size.gone += std::ssize(delta.gone);
    tensors.push_back(rows_ref(t, std::move(delta.places)));
    tensors.push_back(words_ref(t.name + ".rows", std::move(delta.rows)));
    tensors.push_back(words_ref(t.name + ".gone", std::move(delta.gone)));
  }

  const std::string place = delta_link(chain, iteration);
  std::error_code error;
  fs::create_directories(chain, error);  // when it fails, the next one says so
  const std::string temporary = temporary_directory(place);
  try {
    WriteFile out(delta_file(temporary));
    meta.file = write_safetensors(out, tensors);
    out.close();
    write_text(temporary + "/" + kDeltaManifest, manifest_of(meta));
    sync_directory(temporary);
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  replace_path(temporary, place);
  size.bytes = meta.file.bytes;
  return size;
}

DeltaMeta read_delta_manifest(const std::string& link) {
  const ReadFile file(link + "/" + kDeltaManifest);
  const std::string text = read_text(file, kMaxDeltaManifest);
  return config::as_data_error([&] {
    const config::JsonNode root = config::JsonNode::parse(text, file.name());
    DeltaMeta meta;
    std::string sum;
    config::read_object(root, [&](config::Block& s) {
      std::string format, program;
      int64_t version = 0;
      s.choice("format", &format, {{kDeltaFormat, kDeltaFormat}}, "", kRequired);
      s.text("program", &program, "", kRequired);
      if (s.integer("version", &version, {}, "", kRequired) && version != kDeltaVersion)
        raise<DataError>("{}: version: expected {}, found {} (written by program {}, this is {})",
                         file.name(), kDeltaVersion, version, program, hlite::kVersion);
      s.integer("iteration", &meta.iteration, {.min = 0}, "", kRequired);
      declare_sum(s, "before", meta.before);
      declare_sum(s, "after", meta.after);
      declare_sum(s, "file", meta.file);
      s.objects("tensors", "a list of tensors", "", kRequired, [&](config::Block& of) {
        DeltaTensor& t = meta.tensors.emplace_back();
        of.text("name", &t.name, "", kRequired);
        of.choice("dtype", &t.dtype, dtype_names(), "", kRequired);
        of.integers("shape", &t.shape, {.min = 0}, "", kRequired);
      });
      s.text("xxh3_64", &sum, "", kRequired);
    });
    check_sum(text, sum, file.name());
    return meta;
  });
}

}  // namespace hlite::checkpoint
