// The Data layer, layers[0].
#include "hugectr_lite/config/data_config.h"

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/config/slot_sizes.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

// Bounds far above any use that keep sample and batch sizes in bytes within 64 bits.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxLabels = 64;
constexpr int64_t kMaxReaders = 1024;
constexpr int64_t kMaxBatchesPerReader = 65536;
constexpr int64_t kMaxIoBlock = int64_t{1} << 30;
constexpr int64_t kMinIoAlignment = 512;  // one sector

}  // namespace

std::string parse_name(ObjectReader& reader, std::string_view key) {
  const JsonNode& node = reader.member(key);
  if (node.kind() != JsonNode::Kind::kString || node.string().empty()) {
    fail_expected(node, "a non-empty string");
  }
  return node.string();
}

namespace {

AsyncParamConfig parse_async_param(ObjectReader reader) {
  AsyncParamConfig param;
  param.num_threads = reader.integer("num_threads", {1, kMaxReaders});
  param.num_batches_per_thread =
      reader.integer("num_batches_per_thread", {1, kMaxBatchesPerReader});
  param.io_depth = reader.integer("io_depth", {1, kMaxBatchesPerReader});
  param.io_alignment = reader.integer("io_alignment");
  if (param.io_alignment < kMinIoAlignment || param.io_alignment > kMaxIoBlock ||
      (param.io_alignment & (param.io_alignment - 1)) != 0) {
    fail_expected(reader.member("io_alignment"),
                  fmt::format("a power of two >= {}", kMinIoAlignment));
  }
  param.io_block_size = reader.integer("io_block_size");
  if (param.io_block_size < 1 || param.io_block_size > kMaxIoBlock ||
      param.io_block_size % param.io_alignment != 0) {
    fail_expected(
        reader.member("io_block_size"),
        fmt::format("a multiple of io_alignment ({}) up to {}", param.io_alignment, kMaxIoBlock));
  }
  param.shuffle = reader.boolean_or("shuffle", false);
  if (reader.has("multi_hot_reader")) param.multi_hot_reader = reader.boolean("multi_hot_reader");
  if (reader.has("is_dense_float")) param.is_dense_float = reader.boolean("is_dense_float");
  reader.finish();
  return param;
}

void parse_label_and_dense(ObjectReader& layer, DataConfig& data) {
  ObjectReader label = layer.object("label");
  data.label_top = parse_name(label, "top");
  data.label_dim = label.integer("label_dim", {1, kMaxLabels});
  label.finish();

  ObjectReader dense = layer.object("dense");
  data.dense_top = parse_name(dense, "top");
  data.dense_dim = dense.integer("dense_dim", {0, kMaxWidth});
  data.dense_aligned = dense.choice_or("aligned", "None", {"Auto", "None"}) == "Auto";
  dense.finish();
}

// float_label_dense is of label and dense features alike. Multi-hot raw data has, unless told
// otherwise, integer labels and float features.
void parse_number_kinds(ObjectReader& reader, DataConfig& data) {
  const bool both = reader.boolean_or("float_label_dense", false);
  const bool multi_hot = !data.key_layout().is_one_hot();
  const AsyncParamConfig param = data.async_param.value_or(AsyncParamConfig());
  if (multi_hot && param.multi_hot_reader == false)
    fail_at(*reader.node().find("async_param")->find("multi_hot_reader"),
            "expected true, as nnz_per_slot has slots of several keys, found false");
  if (both && param.is_dense_float == false)
    fail_at(*reader.node().find("async_param")->find("is_dense_float"),
            "expected true beside \"float_label_dense\": true, found false");
  const bool floats_by_default = multi_hot || param.multi_hot_reader == true;
  data.float_label = both;
  data.float_dense = reader.has("float_label_dense") ? both : floats_by_default;
  if (param.is_dense_float) data.float_dense = *param.is_dense_float;
}

void parse_keys(ObjectReader& reader, DataConfig& data) {
  data.key_policy.kind = reader.value_or<KeyPolicy>(
      "key_policy", KeyPolicy::kError,
      {{"error", KeyPolicy::kError}, {"clamp", KeyPolicy::kClamp}, {"oov", KeyPolicy::kOov}});
  data.key_policy.oov_key =
      static_cast<uint32_t>(reader.integer_or("oov_key", 0, {0, int64_t{kNoKey} - 1}));
  if (reader.has("oov_key") && data.key_policy.kind != KeyPolicy::kOov)
    fail_at(reader.member("oov_key"), "expected \"key_policy\": \"oov\" beside it");
  data.global_keys = reader.choice_or("keys", "local", {"local", "global"}) == "global";
  if (data.global_keys && data.is_raw())
    fail_expected(reader.member("keys"), "\"local\", as keys of raw data are local to their slot");
}

void parse_sparse(ObjectReader& reader, const std::string& directory, DataConfig& data) {
  data.sparse = parse_sparse_inputs(reader.member("sparse"), data.is_raw(), reader.strict());
  if (!reader.has("slot_size_array")) return;
  data.slot_size_array = read_slot_sizes(reader, directory);
  const size_t slots = data.key_layout().hotness.size();
  if (!data.slot_size_array.empty() && data.slot_size_array.size() != slots)
    fail_at(reader.member("slot_size_array"),
            fmt::format("expected a list of slot_num ({}) sizes, found {}", slots,
                        data.slot_size_array.size()));
}

// As many labels and dense features as the layer has: one name a column.
void parse_columns(ObjectReader& reader, DataConfig& data) {
  if (!reader.has("columns")) return;
  if (data.format != DataFormat::kParquet)
    fail_at(reader.member("columns"),
            fmt::format("expected \"format\": \"Parquet\" beside it, found {}",
                        data_format_name(data.format)));
  ObjectReader columns = reader.object("columns");
  for (const char* key : {"labels", "conts", "cats"}) columns.accept(key);
  const auto names = [&](const char* key, int64_t count, const char* counted) {
    std::vector<std::string> found = columns.strings(key);
    if (std::ssize(found) != count)
      fail_at(columns.member(key),
              fmt::format("expected {} names ({}), found {}", count, counted, found.size()));
    return found;
  };
  ColumnsConfig& named = data.columns.emplace();
  named.labels = names("labels", data.label_dim, "label_dim");
  if (data.dense_dim > 0 || columns.has("conts"))
    named.conts = names("conts", data.dense_dim, "dense_dim");
  named.cats = names("cats", data.key_layout().slots(), "the slots of sparse");
  columns.finish();
}

void check_tops_distinct(const ObjectReader& reader, const DataConfig& data) {
  if (data.dense_top == data.label_top) {
    fail_expected(*reader.node().find("dense")->find("top"), "a name that is not the label's");
  }
  for (size_t i = 0; i < data.sparse.size(); ++i) {
    const std::string& top = data.sparse[i].top;
    const JsonNode& node = *reader.node().find("sparse")->elements()[i].find("top");
    if (top == data.label_top || top == data.dense_top)
      fail_expected(node, "a name that is neither the label's nor the dense input's");
    for (size_t before = 0; before < i; ++before)
      if (top == data.sparse[before].top)
        fail_expected(node, "a name that no other sparse input has");
  }
}

}  // namespace

const char* data_format_name(DataFormat format) {
  constexpr const char* kNames[] = {"Raw", "RawAsync", "Norm", "Parquet"};
  return kNames[static_cast<size_t>(format)];
}

KeyLayout DataConfig::key_layout() const {
  std::vector<int64_t> hotness;
  for (const SparseInputConfig& s : sparse)
    hotness.insert(hotness.end(), s.hotness.begin(), s.hotness.end());
  return KeyLayout(std::move(hotness));
}

DataConfig parse_data(const JsonNode& node, bool strict, const std::string& directory) {
  ObjectReader reader(node, strict);
  reader.choice("type", {"Data"});

  DataConfig data;
  data.name = reader.string_or("name", "data");
  data.format = reader.value_or<DataFormat>("format", DataFormat::kNorm,
                                            {{"Raw", DataFormat::kRaw},
                                             {"RawAsync", DataFormat::kRawAsync},
                                             {"Norm", DataFormat::kNorm},
                                             {"Parquet", DataFormat::kParquet}});
  data.source = parse_name(reader, "source");
  data.eval_source = parse_name(reader, "eval_source");
  if (reader.has("test_source")) data.test_source = parse_name(reader, "test_source");
  data.checksums = reader.value<bool>("check", {{"None", false}, {"Sum", true}});
  if (data.checksums && data.is_raw()) {
    fail_expected(reader.member("check"), fmt::format("\"None\", as the format {} has no checksums",
                                                      data_format_name(data.format)));
  }
  const auto sample_count = [&](const char* key) -> std::optional<int64_t> {
    const bool required = data.format == DataFormat::kRaw;  // the others can go by their files
    if (!required && !reader.has(key)) return std::nullopt;
    return reader.integer(key, {.min = 1});
  };
  data.num_samples = sample_count("num_samples");
  data.eval_num_samples = sample_count("eval_num_samples");
  data.cache_eval_data = reader.integer_or("cache_eval_data", 0, {.min = 0});
  // Statistics are taken with the embedding's own copy of this number.
  reader.integer_or("num_iterations_statistics", 20, {.min = 1});

  parse_label_and_dense(reader, data);
  parse_sparse(reader, directory, data);
  check_tops_distinct(reader, data);

  if (data.format == DataFormat::kRawAsync || reader.has("async_param")) {
    data.async_param = parse_async_param(reader.object("async_param"));
    data.shuffle = data.async_param->shuffle;
    if (data.shuffle && !data.is_raw())
      fail_at(*reader.member("async_param").find("shuffle"),
              fmt::format("expected false, as {} files are read in order, found true",
                          data_format_name(data.format)));
  }
  data.shuffle_samples = reader.boolean_or("shuffle_samples", false);
  if (data.shuffle_samples && data.shuffle)
    fail_at(reader.member("shuffle_samples"),
            "expected shuffle_samples or async_param.shuffle, found both");
  if (reader.has("num_workers")) data.num_workers = reader.integer("num_workers", {1, kMaxReaders});
  parse_number_kinds(reader, data);
  parse_keys(reader, data);
  parse_columns(reader, data);
  reader.finish();
  return data;
}

}  // namespace hlite::config
