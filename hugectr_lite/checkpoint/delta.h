// A delta: the difference between a model's weights and those of an earlier moment, for a program
// that has these, such as a server. Deltas form a chain in a folder:
//
//   <chain>/0000000300/delta.safetensors    the iteration is the name
//   <chain>/0000000300/manifest.json
//
//   manifest.json: {"format": "hugectr_lite delta", "version": 1, "program": "0.1.0",
//     "iteration": 300, "before": {"bytes": 123, "xxh3_64": "<16 hex digits>"}, "after": {...},
//     "tensors": [{"name": "emb.table_0", "dtype": "F32", "shape": [40, 16]}, ...],
//     "file": {"bytes": 12, "xxh3_64": "..."}, "xxh3_64": "<of the text of the members above>"}
//
// `before` and `after` are the sums of the whole weights file at both ends, the one that a checkpoint
// is used with (weights_in() of checkpoint.h), and `tensors` are those of the latter: so a link fits
// the one before it and nothing else, and what is joined can be compared with a full save by its
// checksum.
//
// delta.safetensors holds, of a table <t>: `<t>.rows`, the keys of the rows that changed or came
// (row numbers where the table has no keys), ascending; `<t>`, these rows; `<t>.gone`, the keys of
// rows that left. Other tensors are there as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"

namespace hlite::checkpoint {

struct DeltaTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

struct DeltaMeta {
  int64_t iteration = 0;
  FileSum before, after, file;
  std::vector<DeltaTensor> tensors;
};

// Rows of a delta, for a line.
struct DeltaSize {
  int64_t rows = 0, gone = 0, bytes = 0, full_bytes = 0;
  bool was_there = false;  // the link was written before, and its rows are not counted again
};

// Returns true for the tables of an embedding layer, whose rows are compared one by one.
bool is_table(const std::string& name, const std::vector<int64_t>& shape);

// Writes the link from the weights file `base`, whose sum is `before`, to `weights`, those that a
// checkpoint would be used with. A link that is there already and leads to the same weights at the
// same iteration stays: a run that was killed is repeated. Throws DataError if the chain has this
// iteration or a later one otherwise, or ends in other weights than `base`; FileError.
DeltaSize write_delta(const std::string& chain, int64_t iteration, const ByteSource& base,
                      const FileSum& before, std::span<const TensorRef> weights);

class DeltaChain;
// Throws DataError unless the chain is empty, or its last link ends in weights with the sum `before`
// (the next link follows it) or begins there (it may be the next link, of a run that was killed).
// `base`: the weights' name in messages.
void check_next_link(const DeltaChain& chain, const std::string& base, const FileSum& before);

// Reads and checks the manifest of a link. Throws DataError.
DeltaMeta read_delta_manifest(const std::string& link);
std::string delta_file(const std::string& link);

}  // namespace hlite::checkpoint
