// The Data layer, layers[0].
#include <limits>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

// Bounds far above any use that keep sample and batch sizes in bytes within 64 bits.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxReaders = 1024;
constexpr int64_t kMaxBatchesPerReader = 65536;
constexpr int64_t kMaxIoBlock = int64_t{1} << 30;
constexpr int64_t kMinIoAlignment = 512;           // one sector
constexpr int64_t kMaxKeys = int64_t{0xFFFFFFFF};  // keys are 32-bit

std::string parse_name(ObjectReader& reader, std::string_view key) {
  const JsonNode& node = reader.member(key);
  if (node.kind() != JsonNode::Kind::kString || node.string().empty()) {
    fail_expected(node, "a non-empty string");
  }
  return node.string();
}

std::string parse_format(ObjectReader& reader) {
  if (!reader.has("format")) {
    fail_at(reader.node(),
            "missing key \"format\": its default \"Norm\" is known but not supported; expected "
            "\"Raw\" or \"RawAsync\"");
  }
  const std::string format = reader.choice("format", {"Raw", "RawAsync", "Norm", "Parquet"});
  if (format == "Norm" || format == "Parquet") {
    fail_at(reader.member("format"),
            fmt::format("\"{}\" is known but not supported; convert the data and use \"Raw\" or "
                        "\"RawAsync\"",
                        format));
  }
  return format;
}

SparseInputConfig parse_sparse_input(const JsonNode& node, bool strict) {
  ObjectReader reader(node, strict);
  reader.unsupported("nnz_per_slot", "each slot has one key; use max_nnz 1");
  reader.unsupported("is_fixed_length", "each slot has one key; remove it");

  SparseInputConfig sparse;
  sparse.top = parse_name(reader, "top");
  sparse.type = reader.choice("type", {"DistributedSlot", "LocalizedSlot"});
  sparse.slot_num = reader.integer("slot_num", {1, kMaxWidth});
  sparse.max_feature_num_per_sample =
      reader.integer("max_feature_num_per_sample", {sparse.slot_num, kMaxWidth});
  sparse.max_nnz = reader.integer_or("max_nnz", 1, {1, kMaxWidth});
  if (sparse.max_nnz != 1) {
    fail_expected(reader.member("max_nnz"), "1, as each slot has one key (one-hot)");
  }
  // Absent, max_nnz means max_feature_num_per_sample: one key a slot only if that is slot_num.
  if (!reader.has("max_nnz") && sparse.max_feature_num_per_sample != sparse.slot_num) {
    fail_expected(reader.member("max_feature_num_per_sample"),
                  fmt::format("slot_num ({}), or \"max_nnz\": 1", sparse.slot_num));
  }
  sparse.hotness.assign(static_cast<size_t>(sparse.slot_num), 1);
  reader.finish();
  return sparse;
}

AsyncParamConfig parse_async_param(ObjectReader reader) {
  reader.unsupported("multi_hot_reader", "each slot has one key; remove it");
  reader.unsupported("is_dense_float", "use float_label_dense of the Data layer");

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
  reader.finish();
  return param;
}

void parse_label_and_dense(ObjectReader& layer, DataConfig& data) {
  ObjectReader label = layer.object("label");
  data.label_top = parse_name(label, "top");
  data.label_dim = label.integer("label_dim", {1, 1});
  label.finish();

  ObjectReader dense = layer.object("dense");
  data.dense_top = parse_name(dense, "top");
  data.dense_dim = dense.integer("dense_dim", {1, kMaxWidth});
  data.dense_aligned = dense.choice_or("aligned", "None", {"Auto", "None"}) == "Auto";
  dense.finish();
}

void parse_sparse(ObjectReader& reader, DataConfig& data) {
  const JsonNode& inputs = reader.member("sparse");
  if (inputs.kind() != JsonNode::Kind::kArray || inputs.elements().size() != 1) {
    fail_expected(inputs, "a list of one sparse input");
  }
  data.sparse.push_back(parse_sparse_input(inputs.elements().front(), reader.strict()));

  const auto slots = static_cast<size_t>(data.sparse.front().slot_num);
  data.slot_size_array = reader.integers_or("slot_size_array", {}, {1, kMaxKeys});
  if (!data.slot_size_array.empty() && data.slot_size_array.size() != slots) {
    fail_expected(reader.member("slot_size_array"),
                  fmt::format("a list of slot_num ({}) sizes", slots));
  }
}

void check_tops_distinct(const ObjectReader& reader, const DataConfig& data) {
  const std::string& sparse_top = data.sparse.front().top;
  if (data.dense_top == data.label_top) {
    fail_expected(*reader.node().find("dense")->find("top"), "a name that is not the label's");
  }
  if (sparse_top == data.label_top || sparse_top == data.dense_top) {
    fail_expected(*reader.node().find("sparse")->elements().front().find("top"),
                  "a name that is neither the label's nor the dense input's");
  }
}

}  // namespace

KeyLayout DataConfig::key_layout() const {
  std::vector<int64_t> hotness;
  for (const SparseInputConfig& s : sparse)
    hotness.insert(hotness.end(), s.hotness.begin(), s.hotness.end());
  return KeyLayout(std::move(hotness));
}

DataConfig parse_data(const JsonNode& node, bool strict) {
  ObjectReader reader(node, strict);
  reader.unsupported("num_workers", "use async_param.num_threads");
  reader.choice("type", {"Data"});

  DataConfig data;
  data.name = reader.string_or("name", "data");
  data.format = parse_format(reader);
  data.source = parse_name(reader, "source");
  data.eval_source = parse_name(reader, "eval_source");
  data.check = reader.choice("check", {"None", "Sum"});
  if (data.check == "Sum") {
    fail_expected(reader.member("check"),
                  fmt::format("\"None\", as the format {} has no checksums", data.format));
  }
  const auto sample_count = [&](const char* key) -> std::optional<int64_t> {
    const bool required = data.format == "Raw";  // RawAsync can go by the size of the file
    if (!required && reader.find(key) == nullptr) return std::nullopt;
    return reader.integer(key, {.min = 1});
  };
  data.num_samples = sample_count("num_samples");
  data.eval_num_samples = sample_count("eval_num_samples");
  data.cache_eval_data = reader.integer_or("cache_eval_data", 0, {.min = 0});
  data.float_label = data.float_dense = reader.boolean_or("float_label_dense", false);
  // Statistics are taken with the embedding's own copy of this number.
  reader.integer_or("num_iterations_statistics", 20, {.min = 1});

  parse_label_and_dense(reader, data);
  parse_sparse(reader, data);
  check_tops_distinct(reader, data);

  if (data.format == "RawAsync" || reader.has("async_param")) {
    data.async_param = parse_async_param(reader.object("async_param"));
    data.shuffle = data.async_param->shuffle;
  }
  reader.accept("async_param");
  reader.finish();
  return data;
}

}  // namespace hlite::config
