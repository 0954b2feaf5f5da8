// A checkpoint: a directory that is complete or not there.
//
//   <dir>/weights.safetensors    <dir>/optimizer.safetensors    <dir>/manifest.json
//
//   manifest.json: {"format": "hugectr_lite checkpoint", "version": 1, "program": "0.1.0",
//     "iteration": 300, "samples": 76800, "data_position": 300, "seed": "<u64>", "config": {...},
//     "watch": {"rate_scale": 0.1, "plateau": {"best": 0.81, "waited": 0}, "early_stop": {...}},
//     "files": [{"name": "weights.safetensors", "bytes": 123, "xxh3_64": "<16 hex digits>"}, ...],
//     "xxh3_64": "<of the text of the members above>"}
//
// It is written as <dir>.tmp.<pid>, made durable, and put in its place by replace_path()
// (core/file.h); with it best.safetensors where there are best weights so far. Whoever is killed or
// runs out of disk leaves the older checkpoint as it was. What dead processes left behind is
// removed by the next save.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"

namespace hlite::checkpoint {

struct CheckpointFile {
  std::string name;
  FileSum sum;
};

// How a metric that is watched has gone so far.
struct BestMetric {
  bool any = false;
  double value = 0;    // the best
  int64_t waited = 0;  // evaluations since then, or since the rate was last cut
};

struct CheckpointMeta {
  int64_t iteration = 0;      // iterations done
  int64_t samples = 0;        // samples trained on
  int64_t data_position = 0;  // batches taken from the training source
  uint64_t seed = 0;
  // Dynamic loss scale, and iterations since it changed; 0: none.
  double loss_scale = 0;
  int64_t loss_scale_good = 0;
  // What evaluations have led to.
  float rate_scale = 1;
  BestMetric plateau, early_stop;
  // Weights of the best evaluation: a file to put in when saving; empty: none.
  std::string best_weights;
  std::string config = "{}";  // JSON text of the whole config
  // Filled by read_manifest():
  std::string program;  // version of the program that wrote it
  std::vector<CheckpointFile> files;
};

// Opens the files that save_checkpoint() writes; tests pass one whose files fail.
using OpenSink = std::function<std::unique_ptr<ByteSink>(const std::string& path)>;

// Writes a checkpoint in the place of `dir`. Throws DataError, the old one untouched: when writing
// fails ("...: No space left on device; the checkpoint <dir> is untouched"), and when `dir` is
// something that we did not write (no manifest.json in it).
void save_checkpoint(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states,
                     const OpenSink& open = {});

// Throws DataError when save_checkpoint() could not put a checkpoint there: something else is in
// the place, or its parent directory cannot be written. For a check before hours of training.
void check_checkpoint_place(const std::string& dir);

// Reads and checks manifest.json. Throws DataError naming the file.
CheckpointMeta read_manifest(const std::string& dir);
// The same from text; `name` stands for the file in messages.
CheckpointMeta parse_manifest(const std::string& text, const std::string& name);

// Reads the tensors of the checkpoint whose manifest is `meta` to their places. Sizes, checksums,
// names and shapes must agree: else DataError with file, expected and found, and the tensors hold
// no meaningful values.
void load_checkpoint(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states);
void load_checkpoint_weights(const std::string& dir, const CheckpointMeta& meta,
                             std::span<const TensorRef> weights);

// Path of the best weights in a checkpoint, whose manifest is `meta`, or empty where it has none.
// Throws DataError when they are not as they were saved.
std::string best_weights_file(const std::string& dir, const CheckpointMeta& meta);

// Whether trained weights are in a checkpoint's directory, not in a file that was exported.
bool is_checkpoint(const std::string& model);

// Path of the weights in a checkpoint.
std::string weights_file(const std::string& dir);

// One safetensors file, written beside its final name and renamed into place.
void save_weights(const std::string& path, std::span<const TensorRef> tensors);
// Reads all tensors of a file; names and shapes must agree exactly.
void load_weights(const std::string& path, std::span<const TensorRef> tensors);

}  // namespace hlite::checkpoint
