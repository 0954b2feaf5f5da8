// The sparse inputs of the Data layer: slots, and how many keys a sample has in each.
#include <algorithm>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

// Of all sparse inputs together: a batch takes 4 bytes a column and sample.
constexpr int64_t kMaxColumns = int64_t{1} << 20;
constexpr int64_t kMaxFeatures = int64_t{1} << 24;  // an upper bound need not be reached

// nnz_per_slot: one number for all slots, or one for each.
std::vector<int64_t> parse_nnz(ObjectReader& reader, int64_t slots) {
  constexpr IntegerRange kKeys{1, kMaxColumns};
  const JsonNode& node = reader.member("nnz_per_slot");
  if (node.kind() != JsonNode::Kind::kArray)
    return std::vector<int64_t>(static_cast<size_t>(slots), reader.integer("nnz_per_slot", kKeys));
  std::vector<int64_t> nnz = reader.integers("nnz_per_slot", kKeys);
  if (static_cast<int64_t>(nnz.size()) != slots)
    fail_expected(node, fmt::format("one number, or one for each of the {} slots", slots));
  return nnz;
}

// How many keys a slot has at most, from what the config says about it; in this order:
//   nnz_per_slot                     so many (always so many in the raw formats)
//   max_nnz                          so many in each slot
//   max_feature_num_per_sample       what one slot can have when the others have a key each
void parse_hotness(ObjectReader& reader, bool raw, SparseInputConfig& sparse) {
  const int64_t slots = sparse.slot_num;
  const bool by_slot = reader.has("nnz_per_slot");
  if (!by_slot || reader.has("max_feature_num_per_sample"))
    sparse.max_feature_num_per_sample =
        reader.integer("max_feature_num_per_sample", {slots, kMaxFeatures});
  const bool has_max = reader.has("max_nnz");
  sparse.max_nnz = reader.integer_or("max_nnz", 1, {1, kMaxColumns});

  if (by_slot) {
    sparse.hotness = parse_nnz(reader, slots);
  } else {
    // A raw record has a fixed number of keys, which an upper bound does not tell.
    if (raw && sparse.max_nnz != 1)
      fail_expected(reader.member("max_nnz"),
                    "1, or nnz_per_slot with the number of keys in each slot, as records of raw "
                    "data have a fixed number of keys");
    if (raw && !has_max && sparse.max_feature_num_per_sample != slots)
      fail_expected(reader.member("max_feature_num_per_sample"),
                    fmt::format("slot_num ({}), or \"max_nnz\": 1", slots));
    const int64_t most = has_max ? sparse.max_nnz : sparse.max_feature_num_per_sample - slots + 1;
    if (most > kMaxColumns / slots)
      fail_at(reader.member(has_max ? "max_nnz" : "max_feature_num_per_sample"),
              fmt::format("expected at most {} keys in all slots together, found {} slots of up to "
                          "{} keys{}",
                          kMaxColumns, slots, most,
                          has_max ? "" : "; max_nnz or nnz_per_slot says how many each can have"));
    sparse.hotness.assign(static_cast<size_t>(slots), most);
  }
  const int64_t most = *std::max_element(sparse.hotness.begin(), sparse.hotness.end());
  if (has_max && sparse.max_nnz != most)
    fail_expected(reader.member("max_nnz"),
                  fmt::format("{}, the most that nnz_per_slot has", most));
  sparse.max_nnz = most;

  const int64_t columns = KeyLayout(sparse.hotness).columns;
  if (by_slot && columns > kMaxColumns)
    fail_at(reader.member("nnz_per_slot"),
            fmt::format("expected at most {} keys in all slots together, found {}", kMaxColumns,
                        columns));
  if (sparse.max_feature_num_per_sample == 0) sparse.max_feature_num_per_sample = columns;
  if (by_slot && raw && sparse.max_feature_num_per_sample < columns)
    fail_expected(reader.member("max_feature_num_per_sample"),
                  fmt::format("at least {}, the sum of nnz_per_slot", columns));
}

SparseInputConfig parse_sparse_input(const JsonNode& node, bool raw, bool strict) {
  ObjectReader reader(node, strict);
  SparseInputConfig sparse;
  sparse.top = parse_name(reader, "top");
  sparse.type = reader.value<SlotSpread>("type", {{"DistributedSlot", SlotSpread::kDistributed},
                                                  {"LocalizedSlot", SlotSpread::kLocalized}});
  sparse.slot_num = reader.integer("slot_num", {1, kMaxColumns});
  parse_hotness(reader, raw, sparse);
  sparse.is_fixed_length = reader.boolean_or("is_fixed_length", raw);
  if (raw && !sparse.is_fixed_length)
    fail_expected(reader.member("is_fixed_length"),
                  "true, as records of raw data have a fixed number of keys");
  if (sparse.is_fixed_length && !raw && !reader.has("nnz_per_slot"))
    fail_at(reader.member("is_fixed_length"), "expected nnz_per_slot beside it, found none");
  reader.finish();
  return sparse;
}

}  // namespace

std::vector<SparseInputConfig> parse_sparse_inputs(const JsonNode& inputs, bool raw, bool strict) {
  if (inputs.kind() != JsonNode::Kind::kArray || inputs.elements().empty())
    fail_expected(inputs, "a list of sparse inputs");
  std::vector<SparseInputConfig> all;
  int64_t columns = 0;
  for (const JsonNode& node : inputs.elements()) {
    all.push_back(parse_sparse_input(node, raw, strict));
    columns += KeyLayout(all.back().hotness).columns;
    if (columns > kMaxColumns)
      fail_at(inputs, fmt::format("expected at most {} keys in all inputs together, found {}",
                                  kMaxColumns, columns));
  }
  return all;
}

}  // namespace hlite::config
