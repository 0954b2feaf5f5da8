// The Data layer, layers[0].
#include "hugectr_lite/config/data_config.h"

#include <algorithm>

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

void declare_async_param(Block& s, AsyncParamConfig& param) {
  s.about("How raw files are read with direct I/O.");
  s.integer("num_threads", &param.num_threads, {1, kMaxReaders}, "Threads that read.");
  s.integer("num_batches_per_thread", &param.num_batches_per_thread, {1, kMaxBatchesPerReader},
            "Batches that each thread reads ahead.");
  s.integer("io_depth", &param.io_depth, {1, kMaxBatchesPerReader},
            "Requests in flight per thread.");
  const std::string alignment = fmt::format("a power of two >= {}", kMinIoAlignment);
  s.value(
      "io_alignment", {alignment, fmt::format(R"("type":"integer","minimum":{})", kMinIoAlignment)},
      "Alignment of offsets and buffers in bytes.", otherwise("`512`"), [&](const JsonNode& node) {
        const int64_t bytes = to_integer(node);
        if (bytes < kMinIoAlignment || bytes > kMaxIoBlock || (bytes & (bytes - 1)) != 0)
          fail_expected(node, alignment);
        param.io_alignment = bytes;
      });
  s.value("io_block_size",
          {fmt::format("a multiple of io_alignment up to {}", kMaxIoBlock),
           R"("type":"integer","minimum":1)"},
          "Bytes per request.", otherwise("`1048576`"), [&](const JsonNode& node) {
            param.io_block_size = to_integer(node);
            if (param.io_block_size < 1 || param.io_block_size > kMaxIoBlock ||
                (param.io_alignment > 0 && param.io_block_size % param.io_alignment != 0))
              fail_expected(node, fmt::format("a multiple of io_alignment ({}) up to {}",
                                              param.io_alignment, kMaxIoBlock));
          });
  s.boolean("shuffle", &param.shuffle, "Shuffles the order of batches in every epoch.");
  s.boolean(
      "multi_hot_reader", &param.multi_hot_reader,
      "Later versions of HugeCTR set it for slots of several keys. `nnz_per_slot` decides here; "
      "`false` is an error if it has such slots.",
      otherwise("as `nnz_per_slot` says"));
  s.boolean("is_dense_float", &param.is_dense_float, "Dense features are float32.",
            otherwise("`true` for multi-hot data, else `false`"));
}

void declare_label_and_dense(Block& s, DataConfig& data) {
  if (auto label = s.object("label", "The label tensor.", kRequired)) {
    label->name("top", &data.label_top, "Name of the tensor.", kRequired);
    label->integer("label_dim", &data.label_dim, {1, kMaxLabels},
                   "Labels per sample. More than 1 needs a `MultiCrossEntropyLoss`.", kRequired);
    label->boolean("sample_weight", &data.sample_weight,
                   "Extension: the labels of a sample are followed by its weight, a float32 >= 0. "
                   "See `docs/training.md`.");
    label->boolean("real", &data.real_label,
                   "Extension: labels are any finite numbers, for `MSELoss`; otherwise they are in "
                   "[0, 1].");
  }
  if (auto dense = s.object("dense", "The tensor of dense features.", kRequired)) {
    dense->name("top", &data.dense_top, "Name of the tensor.", kRequired);
    dense->integer("dense_dim", &data.dense_dim, {0, kMaxWidth}, "Dense features per sample.",
                   kRequired);
    dense->choice("aligned", &data.dense_aligned, {{"Auto", true}, {"None", false}},
                  "`Auto` pads the features with zeros to a multiple of 8.");
  }
}

void declare_negative_share(Block& s, DataConfig& data) {
  s.number("negative_share", &data.negative_share, {.min = 0, .max = 1, .without_min = true},
           "Extension: share of the negative samples that the training data still has "
           "(`--negative-share` of the preparation). Scores of evaluations and predictions are "
           "corrected for it.");
  if (data.negative_share < 1 && (data.label_dim != 1 || data.real_label))
    s.refuse("negative_share", "expected 1 unless samples have one label, which is 0 or 1");
}

// Number types of labels and dense features in raw files. Multi-hot raw data defaults to integer
// labels and float features.
void declare_number_kinds(Block& s, DataConfig& data) {
  bool both = false;
  s.boolean(
      "float_label_dense", &both,
      "Raw formats: label and dense features are float32 and used as they are. Otherwise they "
      "are int32, and features become log(x + 1).");
  const AsyncParamConfig param = data.async_param.value_or(AsyncParamConfig());
  s.check([&] {
    const bool multi_hot = !data.key_layout().is_one_hot();
    if (multi_hot && param.multi_hot_reader == false)
      fail_at(*s.at("async_param").find("multi_hot_reader"),
              "expected true, as nnz_per_slot has slots of several keys, found false");
    if (both && param.is_dense_float == false)
      fail_at(*s.at("async_param").find("is_dense_float"),
              "expected true with \"float_label_dense\": true, found false");
    const bool floats_by_default = multi_hot || param.multi_hot_reader == true;
    data.float_label = both;
    data.float_dense = s.has("float_label_dense") ? both : floats_by_default;
    if (param.is_dense_float) data.float_dense = *param.is_dense_float;
    if (!data.format->tokens || !(data.float_label || data.float_dense)) return;
    const std::string integers = fmt::format("false, as {} files have integers", data.format->name);
    if (both) fail_expected(s.at("float_label_dense"), integers);
    fail_expected(
        *s.at("async_param").find(param.is_dense_float ? "is_dense_float" : "multi_hot_reader"),
        integers);
  });
}

void declare_keys(Block& s, DataConfig& data) {
  s.choice(
      "key_policy", &data.key_policy.kind,
      {{"error", KeyPolicy::kError},
       {"clamp", KeyPolicy::kClamp},
       {"oov", KeyPolicy::kOov},
       {"hash", KeyPolicy::kHash}},
      "Extension: what to do with a key outside of its table: stop with an error, `clamp` it to "
      "the last row, or replace it by `oov_key` (`oov`). `hash`, the only policy of `Criteo` "
      "files, hashes each token to a row of the table.",
      otherwise("`\"error\"`; for `Criteo` `\"hash\"`"));
  const bool hashes = data.format->tokens;
  if (s.has("key_policy") && hashes != (data.key_policy.kind == KeyPolicy::kHash))
    s.expected("key_policy", hashes ? "\"hash\", as Criteo files have tokens"
                                    : "a policy for keys, as only Criteo files have tokens");
  if (hashes) data.key_policy.kind = KeyPolicy::kHash;
  s.integer("oov_key", &data.key_policy.oov_key, {0, int64_t{kNoKey} - 1},
            "Extension: the key used by `\"key_policy\": \"oov\"`.");
  if (s.has("oov_key") && data.key_policy.kind != KeyPolicy::kOov)
    s.refuse("oov_key", "key_policy \"oov\" is required with oov_key");
  s.choice("keys", &data.global_keys, {{"local", false}, {"global", true}},
           "Extension: how Norm and Parquet files number keys: `local` from 0 in each slot, or "
           "`global` as in HugeCTR, where a slot's keys begin after those of the slots before it.");
  if (data.global_keys && data.format->fixed_records)
    s.expected("keys", fmt::format("\"local\", as keys of {} files are local to their slot",
                                   data.format->name));
}

// HugeCTR offsets a slot's keys by the sum of all preceding sizes. A slot of size 0 thus shares the
// key range (the vocabulary) of the next slot with a size.
void share_vocabularies(DataConfig& data) {
  std::vector<int64_t>& sizes = data.slot_size_array;
  if (std::find(sizes.begin(), sizes.end(), 0) == sizes.end()) return;
  data.slot_vocabularies.resize(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    const bool own = sizes[i] > 0;
    data.slot_vocabularies[i] = own ? static_cast<int64_t>(i) : data.slot_vocabularies[i + 1];
    if (!own) sizes[i] = sizes[i + 1];
  }
}

// Declares the column names: one for each label, dense feature and slot.
void declare_columns(Block& s, DataConfig& data) {
  auto columns = s.object("columns", "Extension: which columns of Parquet files are used.",
                          otherwise("their `_metadata.json` says it"));
  if (!columns) return;
  columns->about("The columns of Parquet files, by name.");
  if (columns->node() && !data.format->named_columns)
    s.refuse("columns", fmt::format("format \"Parquet\" is required with columns, found {}",
                                    data.format->name));
  const auto names = [&](const char* key, std::vector<std::string>* field, int64_t count,
                         const char* counted, const char* meaning, const Need& need) {
    const bool known = count > 0 || field == &data.columns->conts;
    if (columns->strings(key, field, meaning, need) && known && std::ssize(*field) != count)
      columns->refuse(
          key, fmt::format("expected {} names ({}), found {}", count, counted, field->size()));
  };
  ColumnsConfig& named = data.columns.emplace();
  names("labels", &named.labels, data.label_width(),
        data.sample_weight ? "label_dim, and the sample weight" : "label_dim",
        "One for each label, then that of the sample weight if there is one.", kRequired);
  names("conts", &named.conts, data.dense_dim, "dense_dim", "One for each dense feature.",
        {.required = data.dense_dim > 0, .otherwise = "required, unless `dense_dim` is 0"});
  names("cats", &named.cats, data.key_layout().slots(), "the slots of sparse", "One for each slot.",
        kRequired);
}

void check_tops_distinct(const Block& s, const DataConfig& data) {
  if (data.dense_top == data.label_top)
    fail_expected(*s.at("dense").find("top"), "a name that is not the label's");
  for (size_t i = 0; i < data.sparse.size(); ++i) {
    const std::string& top = data.sparse[i].top;
    const JsonNode& node = *s.at("sparse").elements()[i].find("top");
    if (top == data.label_top || top == data.dense_top)
      fail_expected(node, "a name that is neither the label's nor the dense input's");
    for (size_t before = 0; before < i; ++before)
      if (top == data.sparse[before].top)
        fail_expected(node, "a name that no other sparse input has");
  }
}

void declare_sources(Block& s, DataConfig& data) {
  Choices<const DataFormat*> formats;
  for (const DataFormat* format : data_formats()) formats.emplace_back(format->name, format);
  s.choice("format", &data.format, formats,
           "Format of the files; docs/data_formats.md describes each.");
  s.name("source", &data.source, "Training data: a file; for Norm a list of files.", kRequired);
  s.name("eval_source", &data.eval_source, "Evaluation data; required if the solver evaluates.");
  s.name("test_source", &data.test_source,
         "Extension: test data, evaluated once at the end of training.");
  s.boolean(
      "follow", &data.follow,
      "Extension: `source` is a folder that grows. Its files are read in the order of their "
      "names, each once; each is scored before it is trained on (`progressive` in metrics). A "
      "file `_END` ends training. See `docs/day_after_day.md`.");
  s.choice("check", &data.checksums, {{"None", false}, {"Sum", true}},
           "Checksums of Norm files: `Sum` if they have them, `None` if not.",
           {.required = s.node() && data.format->checksums, .otherwise = "required for `Norm`"});
  if (data.checksums && data.format->fixed_records)
    s.expected("check",
               fmt::format("\"None\", as the format {} has no checksums", data.format->name));
  s.integer("num_samples", &data.num_samples, {.min = 1},
            "Training samples to use, from the start of the data.", otherwise("all"));
  s.integer("eval_num_samples", &data.eval_num_samples, {.min = 1},
            "Evaluation samples to use, from the start of the data.", otherwise("all"));
  if (data.follow && data.num_samples)
    s.refuse("num_samples", "expected none with \"follow\": true, which reads whole files");
  s.integer("cache_eval_data", &data.cache_eval_data, {.min = 0},
            "Evaluation batches to keep in memory after the first evaluation, if that is the whole "
            "set.");
}

}  // namespace

KeyLayout DataConfig::key_layout() const {
  std::vector<int64_t> hotness;
  for (const SparseInputConfig& s : sparse)
    hotness.insert(hotness.end(), s.hotness.begin(), s.hotness.end());
  return KeyLayout(std::move(hotness));
}

void declare(Block& s, const std::string& directory, DataConfig& data) {
  data.name = "data";
  s.text("name", &data.name, "Name of the layer, for messages and `--set`.");
  bool is_data = true;
  s.choice("type", &is_data, {{"Data", true}}, "Only the first layer has this type.", kRequired);
  declare_sources(s, data);
  declare_label_and_dense(s, data);
  declare_sparse(s, data.format->fixed_records, data.sparse);
  s.check([&] { check_tops_distinct(s, data); });
  if (data.format->check) s.check([&] { data.format->check(s, data); });
  const bool sized = declare_slot_sizes(
      s, directory, &data.slot_size_array,
      "Rows of each slot's table, over all inputs. Hash embeddings without sizes of their own use "
      "these. A slot of size 0 shares the vocabulary of the next slot that has a size; slots side "
      "by side that share one share a table.",
      {}, /*least=*/0);
  s.check([&] {
    const size_t slots = data.key_layout().hotness.size();
    if (sized && !data.slot_size_array.empty() && data.slot_size_array.size() != slots)
      fail_at(s.at("slot_size_array"),
              fmt::format("expected a list of slot_num ({}) sizes, found {}", slots,
                          data.slot_size_array.size()));
    if (!data.slot_size_array.empty() && data.slot_size_array.back() == 0)
      fail_at(s.at("slot_size_array"),
              "expected a size above 0 for the last slot, found 0, which shares the vocabulary of "
              "the next slot");
    share_vocabularies(data);
  });
  if (auto param = s.object("async_param", "How raw files are read.",
                            otherwise("`num_workers` says how many threads read")))
    declare_async_param(*param, data.async_param.emplace());
  data.shuffle = data.async_param && data.async_param->shuffle;
  if (data.shuffle && !data.format->shuffles)
    s.check([&] {
      fail_at(*s.at("async_param").find("shuffle"),
              fmt::format("expected false, as {} files are read in order, found true",
                          data.format->name));
    });
  s.integer("num_workers", &data.num_workers, {1, kMaxReaders},
            "Threads that read, if there is no `async_param`.",
            otherwise("`2`; for Parquet one per CPU thread"));
  s.boolean(
      "shuffle_samples", &data.shuffle_samples,
      "Extension: shuffles the order of samples in every epoch, and keeps the set in memory.");
  if (data.shuffle_samples && data.shuffle)
    s.refuse("shuffle_samples", "expected shuffle_samples or async_param.shuffle, found both");
  if (data.follow && data.shuffle)
    s.check([&] {
      fail_at(*s.at("async_param").find("shuffle"),
              "expected false with \"follow\": true, which reads in order, found true");
    });
  if (data.follow && data.shuffle_samples)
    s.refuse("shuffle_samples", "expected none with \"follow\": true, which reads in order");
  declare_negative_share(s, data);
  declare_number_kinds(s, data);
  declare_keys(s, data);
  declare_columns(s, data);
  int64_t statistics = 20;
  s.integer(
      "num_iterations_statistics", &statistics, {.min = 1},
      "Accepted, without effect: set it in the `sparse_embedding_hparam` of the embedding layer.");
}

}  // namespace hlite::config
