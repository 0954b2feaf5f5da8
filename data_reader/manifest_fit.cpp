#include "data_reader/manifest_fit.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "data_reader/norm_format.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::data {

namespace {

const char* kind_of(bool is_float) { return is_float ? "float32" : "int32"; }

// The files that an entry of the manifest stands for.
std::vector<std::string> files_of(const ManifestEntry& entry, const std::string& path) {
  return entry.manifest.format == "norm" ? read_file_list(path) : std::vector<std::string>{path};
}

class Fit {
 public:
  Fit(const ManifestEntry& entry, const std::string& path)
      : m_(entry.manifest),
        share_(entry.file.role == "train" ? std::optional(entry.manifest.negative_share)
                                          : std::nullopt),
        path_(path),
        manifest_(entry.path) {}

  void expect(const char* fault, bool fits, const std::string& expected, const std::string& found,
              std::string advice) {
    if (fits || misfit) return;
    misfit = {.fault = fault,
              .message = fmt::format("{}: expected {}, as {} says, found {} in the config", path_,
                                     expected, manifest_, found),
              .advice = std::move(advice)};
  }

  void format(const config::DataConfig& config) {
    const bool raw = m_.format == "raw" || m_.format == "multi_hot_raw";
    expect("wrong_format", config.format->prepared == (raw ? "raw" : m_.format),
           fmt::format("the format {}", m_.format), config.format->name,
           raw                   ? "set \"format\": \"RawAsync\" in layers[0]"
           : m_.format == "norm" ? "set \"format\": \"Norm\" in layers[0]"
                                 : "prepare the data with --format raw");
    expect("global_keys", !config.global_keys, "keys local to their slots", "\"keys\": \"global\"",
           "leave out \"keys\" in layers[0]");
  }

  void layout(const config::DataConfig& config) {
    const KeyLayout keys = config.key_layout();
    const bool raw = config.format->fixed_records;
    const auto weights = [](bool weight) {
      return weight ? "a sample weight" : "no sample weight";
    };
    expect("sample_weight", m_.sample_weight == config.sample_weight, weights(m_.sample_weight),
           weights(config.sample_weight),
           fmt::format("set \"sample_weight\": {} in the label of layers[0]", m_.sample_weight));
    const auto count = [](int64_t n) { return fmt::format("{} label{}", n, n == 1 ? "" : "s"); };
    expect("label_dim", m_.label_dim == config.label_dim, count(m_.label_dim),
           count(config.label_dim),
           fmt::format("set \"label_dim\": {} in the label of layers[0]", m_.label_dim));
    const auto labels = [](bool real) { return real ? "real labels" : "labels of 0 and 1"; };
    expect("real_label", m_.real_label == config.real_label, labels(m_.real_label),
           labels(config.real_label),
           fmt::format("set \"real\": {} in the label of layers[0]", m_.real_label));
    const auto share = [](double of) { return fmt::format("a share of {} of the negatives", of); };
    if (share_)
      expect("negative_share", *share_ == config.negative_share, share(*share_),
             share(config.negative_share),
             fmt::format("set \"negative_share\": {} in layers[0]", *share_));
    const auto counts = [](int64_t dense, int64_t slots) {
      return fmt::format("{} dense features and {} slots", dense, slots);
    };
    expect("dense_dim", m_.dense_dim == config.dense_dim && std::ssize(m_.hotness) == keys.slots(),
           counts(m_.dense_dim, std::ssize(m_.hotness)), counts(config.dense_dim, keys.slots()),
           "let the config say what the manifest says");
    const auto histories = [](std::span<const History> all) {
      std::string text;
      for (const auto& [name, first, slots] : all)
        text += fmt::format("{}{} to {}", text.empty() ? "histories in the slots " : ", ", first,
                            first + slots - 1);
      return text.empty() ? std::string("no history") : text;
    };
    const std::string has = histories(m_.histories), wants = histories(histories_of(config));
    expect("histories", has == wants, has, wants,
           "an input of sparse has max_len if and only if its slots are a history");
    // Norm and a sparse input of variable length may hold more keys, and of a history in Norm the
    // config may keep fewer.
    const HistoryCheck check(config);
    bool fits = m_.hotness.size() == keys.hotness.size();
    for (size_t s = 0; fits && s < keys.hotness.size(); ++s)
      fits = raw ? m_.hotness[s] == keys.hotness[s]
                 : m_.hotness[s] <= keys.hotness[s] || check.is_history(static_cast<int64_t>(s));
    expect("layout_of_manifest", fits,
           fmt::format("[{}] keys of the slots", fmt::join(m_.hotness, ",")),
           fmt::format("[{}]", fmt::join(keys.hotness, ",")),
           "let nnz_per_slot, or max_len of a history, say what the manifest's hotness says");
    const auto length = [](bool fixed) {
      return fixed ? "a fixed number of keys in each slot" : "a varying number of keys in a slot";
    };
    const bool fixed =
        std::all_of(config.sparse.begin(), config.sparse.end(),
                    [](const config::SparseInputConfig& input) { return input.is_fixed_length; });
    expect("fixed_length", m_.fixed_length == fixed || (!raw && !fixed), length(m_.fixed_length),
           length(fixed),
           fmt::format("set \"is_fixed_length\": {} in sparse of layers[0]", m_.fixed_length));
    const auto kinds = [](bool label, bool dense) {
      return fmt::format("{} labels and {} dense features", kind_of(label), kind_of(dense));
    };
    expect(m_.float_label != config.float_label ? "float_label" : "float_dense",
           !raw || (m_.float_label == config.float_label && m_.float_dense == config.float_dense),
           kinds(m_.float_label, m_.float_dense), kinds(config.float_label, config.float_dense),
           fmt::format("set \"float_label_dense\": {} in layers[0]", m_.float_dense));
  }

  void tables(const config::DataConfig& config, std::span<const int64_t> rows) {
    const std::vector<int64_t>& sizes = m_.slot_sizes;
    if (rows.size() != sizes.size() || config.key_policy.replaces()) return;
    const auto small = std::mismatch(sizes.begin(), sizes.end(), rows.begin(), std::less_equal());
    if (small.first == sizes.end()) return;
    const auto slot = small.first - sizes.begin();
    const bool same = std::is_permutation(sizes.begin(), sizes.end(), rows.begin());
    expect("tables_of_manifest", false,
           fmt::format("{} rows for the table of slot {}{}", *small.first, slot,
                       std::ssize(m_.columns) > slot
                           ? fmt::format(" ({})", m_.columns[static_cast<size_t>(slot)].name)
                           : ""),
           fmt::format("{}{}", *small.second, same ? " (the same sizes in another order)" : ""),
           fmt::format("\"slot_size_array\": \"{}\" takes the sizes from there", manifest_));
  }

  std::optional<Misfit> misfit;

 private:
  const Manifest& m_;
  const std::optional<double> share_;  // of negatives, in training rows
  const std::string& path_;
  const std::string& manifest_;
};

}  // namespace

std::optional<Misfit> find_misfit(const ManifestEntry& entry, const std::string& path,
                                  const config::DataConfig& config,
                                  std::span<const int64_t> slot_rows) {
  Fit fit(entry, path);
  fit.format(config);
  fit.layout(config);
  fit.tables(config, slot_rows);
  return fit.misfit;
}

std::optional<Misfit> find_mixed_vocabularies(const ManifestEntry& entry, const std::string& layer,
                                              std::span<const int64_t> slots,
                                              std::span<const int64_t> tables) {
  const std::vector<ManifestColumn>& columns = entry.manifest.columns;
  if (slots.size() != tables.size() || slots.empty() ||
      *std::max_element(slots.begin(), slots.end()) >= std::ssize(columns))
    return std::nullopt;
  for (size_t s = 0; s < tables.size(); ++s) {
    const auto leader =
        static_cast<size_t>(std::find(tables.begin(), tables.end(), tables[s]) - tables.begin());
    const ManifestColumn& first = columns[static_cast<size_t>(slots[leader])];
    const ManifestColumn& other = columns[static_cast<size_t>(slots[s])];
    if (first.vocabulary == other.vocabulary || first.vocabulary.empty() ||
        other.vocabulary.empty())
      continue;
    return Misfit{
        .fault = "mixed_vocabularies",
        .message = fmt::format(
            "{}: expected one vocabulary for slots {} ({}) and {} ({}), which share table {} of "
            "\"{}\" (slot_tables), found two: the same id means different things in them",
            entry.path, leader, first.name, s, other.name, tables[s], layer),
        .advice = "give these columns one \"vocabulary\" in the schema of csv_prep"};
  }
  return std::nullopt;
}

std::optional<std::string> find_shareable_tables(const ManifestEntry& entry,
                                                 const std::string& layer,
                                                 std::span<const int64_t> slots) {
  const std::vector<int64_t> tables = entry.manifest.tables_of(slots);
  if (tables.empty()) return std::nullopt;
  return fmt::format(
      "{}: some slots of \"{}\" share a vocabulary; they share a table too with \"slot_tables\": "
      "[{}] in its sparse_embedding_hparam",
      entry.path, layer, fmt::join(tables, ","));
}

std::optional<Misfit> find_stale(const ManifestEntry& entry, const std::string& path) {
  const std::vector<std::string> files = files_of(entry, path);
  int64_t bytes = 0;
  for (const std::string& file : files) bytes += ReadFile(file).size();
  if (entry.file.bytes > 0 && bytes != entry.file.bytes)
    return Misfit{.fault = "size_of_manifest",
                  .message = fmt::format("{}: expected {} bytes, as {} says, found {}", path,
                                         entry.file.bytes, entry.path, bytes),
                  .advice = bytes < entry.file.bytes
                                ? "the file was cut short: copy or prepare it again"
                                : "the file is not the one that was prepared"};
  if (entry.file.sample_xxh3.empty()) return std::nullopt;
  const std::string found = sample_digits(files);
  if (found == entry.file.sample_xxh3) return std::nullopt;
  return Misfit{
      .fault = "stale_file",
      .message =
          fmt::format("{}: expected a sample of its bytes with checksum {}, as {} says, found {}",
                      path, entry.file.sample_xxh3, entry.path, found),
      .advice = "the file is not the one that was prepared with the manifest: prepare it again"};
}

void require_fit(const std::string& path, const config::DataConfig& config,
                 std::span<const int64_t> slot_rows) {
  const auto entry = find_manifest_of(path, DamagedManifest::kPassOver);
  if (!entry) return;
  if (const auto misfit = find_misfit(*entry, path, config, slot_rows))
    raise<DataError>("{}; {}", misfit->message, misfit->advice);
}

}  // namespace hlite::data
