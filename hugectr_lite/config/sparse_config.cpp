// The sparse inputs of the Data layer: slots, and how many keys a sample has in each.
#include <algorithm>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

// Maximum number of key columns of all sparse inputs together. A batch takes 4 bytes per column and
// sample.
constexpr int64_t kMaxColumns = int64_t{1} << 20;
// Larger than kMaxColumns, as max_feature_num_per_sample is only an upper bound.
constexpr int64_t kMaxFeatures = int64_t{1} << 24;

constexpr IntegerRange kKeys{1, kMaxColumns};

// Parses one number for all slots, or a list with a number for each slot.
std::vector<int64_t> parse_nnz(const JsonNode& node, int64_t slots) {
  if (node.kind() != JsonNode::Kind::kArray)
    return std::vector<int64_t>(static_cast<size_t>(slots), to_integer(node, kKeys));
  std::vector<int64_t> nnz = to_integers(node, kKeys);
  if (static_cast<int64_t>(nnz.size()) != slots)
    fail_expected(node, fmt::format("one number, or one for each of the {} slots", slots));
  return nnz;
}

// Sets the hotness: the maximum number of keys of each slot, in raw formats the exact number. The
// first of these that the config has determines it:
//   nnz_per_slot                     its number for the slot
//   max_nnz                          this number, for every slot
//   max_feature_num_per_sample       what is left for one slot if each other slot has one key
//   none of them                     1
void infer_hotness(const Block& s, bool raw, SparseInputConfig& sparse) {
  const int64_t slots = sparse.slot_num;
  const bool by_slot = s.has("nnz_per_slot"), has_max = s.has("max_nnz");
  if (!by_slot) {
    // A raw record has a fixed number of keys; an upper bound does not determine it.
    if (raw && sparse.max_nnz != 1)
      fail_expected(s.at("max_nnz"),
                    "1, or nnz_per_slot with the number of keys in each slot, as records of raw "
                    "data have a fixed number of keys");
    const bool has_sum = s.has("max_feature_num_per_sample");
    if (raw && !has_max && has_sum && sparse.max_feature_num_per_sample != slots)
      fail_expected(s.at("max_feature_num_per_sample"),
                    fmt::format("slot_num ({}), or \"max_nnz\": 1", slots));
    const int64_t max_keys =
        has_max || !has_sum ? sparse.max_nnz : sparse.max_feature_num_per_sample - slots + 1;
    if (max_keys > kMaxColumns / slots)
      fail_at(s.at(has_max   ? "max_nnz"
                   : has_sum ? "max_feature_num_per_sample"
                             : "slot_num"),
              fmt::format(
                  "expected at most {} keys in all slots together, found {} slots of up to "
                  "{} keys{}",
                  kMaxColumns, slots, max_keys,
                  has_max ? "" : "; set max_nnz or nnz_per_slot to the number of keys per slot"));
    sparse.hotness.assign(static_cast<size_t>(slots), max_keys);
  }
  const int64_t max_keys = *std::max_element(sparse.hotness.begin(), sparse.hotness.end());
  if (has_max && sparse.max_nnz != max_keys)
    fail_expected(s.at("max_nnz"), fmt::format("{}, the maximum of nnz_per_slot", max_keys));
  sparse.max_nnz = max_keys;

  const int64_t columns = KeyLayout(sparse.hotness).columns;
  if (by_slot && columns > kMaxColumns)
    fail_at(s.at("nnz_per_slot"),
            fmt::format("expected at most {} keys in all slots together, found {}", kMaxColumns,
                        columns));
  if (sparse.max_feature_num_per_sample == 0) sparse.max_feature_num_per_sample = columns;
  if (by_slot && raw && sparse.max_feature_num_per_sample < columns)
    fail_expected(s.at("max_feature_num_per_sample"),
                  fmt::format("at least {}, the sum of nnz_per_slot", columns));
  // One-hot records have all keys, whatever the config says: HugeCTR's own say false.
  if (raw && !by_slot) sparse.is_fixed_length = true;
  if (sparse.is_fixed_length && !raw && !by_slot)
    fail_at(s.at("is_fixed_length"), "nnz_per_slot is required with is_fixed_length");
}

// A history has `max_len` columns a slot, of which a sample fills the first ones.
void declare_history(Block& s, SparseInputConfig& sparse) {
  s.integer("max_len", &sparse.max_len, kKeys,
            "Extension: the input is a history, and each slot a list of keys, oldest first, of "
            "which the last `max_len` are kept. All slots of a sample have equally many. Instead "
            "of `nnz_per_slot` and `max_nnz`.");
  s.name("lengths", &sparse.lengths,
         "Extension: name of a tensor [B, 1], the number of keys kept in each slot of a sample. "
         "Inputs one after the other with the same `max_len` that name the same tensor are one "
         "history, for tables of different widths.");
  if (sparse.max_len == 0) {
    if (s.has("max_len"))  // which is wrong
      sparse.hotness.assign(static_cast<size_t>(std::max<int64_t>(0, sparse.slot_num)), 1);
    else if (s.has("lengths"))
      s.refuse("lengths", "requires `max_len`");
    return;
  }
  for (const char* key : {"nnz_per_slot", "max_nnz"})
    if (s.has(key))
      s.refuse("max_len", fmt::format("expected either max_len or {}, found both", key));
  if (s.has("is_fixed_length") && sparse.is_fixed_length)
    s.refuse("is_fixed_length", "expected false of a history (`max_len`), found true");
  if (sparse.slot_num > 0 && sparse.max_len > kMaxColumns / sparse.slot_num)
    s.refuse("max_len",
             fmt::format("expected at most {} keys in all slots together, found {} slots "
                         "of up to {}",
                         kMaxColumns, sparse.slot_num, sparse.max_len));
  sparse.hotness.assign(static_cast<size_t>(std::max<int64_t>(0, sparse.slot_num)), sparse.max_len);
  sparse.max_nnz = sparse.max_len;
  sparse.max_feature_num_per_sample = sparse.slot_num * sparse.max_len;
  sparse.is_fixed_length = false;
}

void declare(Block& s, bool raw, SparseInputConfig& sparse) {
  s.name("top", &sparse.top, "Name of the input, which embeddings take as `bottom`.", kRequired);
  s.choice("type", &sparse.type,
           {{"DistributedSlot", SlotDistribution::kDistributed},
            {"LocalizedSlot", SlotDistribution::kLocalized}},
           "Accepted but ignored: the type of the embedding layer decides.");
  s.integer("slot_num", &sparse.slot_num, kKeys, "Number of slots. Each has a table.", kRequired);
  s.value("nnz_per_slot",
          {range_text(kKeys) + ", or a list of them",
           R"("type":["integer","array"],"minimum":1,"items":{"type":"integer","minimum":1})"},
          "Keys in each slot: one number for all slots, or a list.", {}, [&](const JsonNode& node) {
            if (sparse.slot_num > 0) sparse.hotness = parse_nnz(node, sparse.slot_num);
          });
  s.integer("max_feature_num_per_sample", &sparse.max_feature_num_per_sample,
            {std::max<int64_t>(1, sparse.slot_num), kMaxFeatures},
            "Maximum number of keys per sample, at least `slot_num`.",
            otherwise("the sum of `nnz_per_slot` or `max_nnz` over all slots"));
  sparse.max_nnz = 1;
  s.integer("max_nnz", &sparse.max_nnz, kKeys,
            "Maximum number of keys per slot. Raw data has 1, unless `nnz_per_slot` is given.");
  sparse.is_fixed_length = raw;
  s.boolean(
      "is_fixed_length", &sparse.is_fixed_length,
      "Every sample has exactly `nnz_per_slot` keys. Raw data with `false` and `nnz_per_slot` "
      "has 4294967295 in place of keys that a sample lacks.",
      otherwise("`true` for raw data, else `false`"));
  declare_history(s, sparse);
  s.finish();
  if (sparse.max_len == 0) s.check([&] { infer_hotness(s, raw, sparse); });
}

}  // namespace

void declare_sparse(Block& s, bool raw, std::vector<SparseInputConfig>& inputs) {
  const bool read =
      s.objects("sparse", "a list of sparse inputs", "The sparse inputs, each a group of slots.",
                kRequired, [&](Block& input) { declare(input, raw, inputs.emplace_back()); });
  if (!read) return;
  int64_t columns = 0;
  for (const SparseInputConfig& input : inputs) columns += KeyLayout(input.hotness).columns;
  if (inputs.size() > 1 && columns > kMaxColumns)
    s.refuse("sparse", fmt::format("expected at most {} keys in all inputs together, found {}",
                                   kMaxColumns, columns));
}

}  // namespace hlite::config
