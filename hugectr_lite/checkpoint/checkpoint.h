// A checkpoint: a directory that is complete or not there.
//
//   <dir>/weights.safetensors    <dir>/optimizer.safetensors    <dir>/manifest.json
//   <dir>/best.safetensors       with early_stop: the weights of the best evaluation so far
//   <dir>/preparation/...        where it was asked for: the training data's manifest and
//   vocabulary
//
// Training goes on from weights.safetensors, the last weights, which the optimizer's states and the
// position in the data belong to. What uses the model takes the best weights where there are any:
// weights_in() below says so to every reader.
//
//   manifest.json: {"format": "hugectr_lite checkpoint", "version": 1, "program": "0.1.0",
//     "iteration": 300, "samples": 76800, "data_position": 300, "seed": "<u64>", "config": {...},
//     "watch": {"rate_scale": 0.1, "plateau": {"best": 0.81, "waited": 0}, "early_stop": {...}},
//     "trained_on": {...}, "run": "<u64>", "followed": {"file": "day_02.bin", "batches": 40},
//     "files": [{"name": "weights.safetensors", "bytes": 123, "xxh3_64": "<16 hex digits>"}, ...],
//     "xxh3_64": "<of the text of the members above>"}
//
// It is written as <dir>.tmp.<pid>.<random>, made durable, and put in its place by replace_path()
// (core/file.h). A process that is killed or runs out of disk leaves the older checkpoint as it
// was. The next save removes the leftovers of dead processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"

namespace hlite::checkpoint {

struct CheckpointFile {
  std::string name;
  FileSum sum;
};

struct CopiedFile {
  std::string from;  // path
  std::string name;  // in <dir>/preparation
};

// The history of a metric that is watched.
struct BestMetric {
  bool any = false;
  double value = 0;       // the best
  int64_t waited = 0;     // evaluations since then, or since the rate was last cut
  bool of_loss = false;   // the value is a loss, which stands in for a metric that has not existed
  int64_t iteration = 0;  // after which it was measured; 0: not known
};

struct CheckpointMeta {
  int64_t iteration = 0;      // iterations done
  int64_t samples = 0;        // samples trained on
  int64_t data_position = 0;  // batches taken from the training source
  // File of data_position and its batches, if a folder is followed; else empty.
  struct FollowedFile {
    std::string file;
    int64_t batches = 0;
  } followed;
  uint64_t seed = 0;
  // Dynamic loss scale, and iterations since it changed; 0: none.
  double loss_scale = 0;
  int64_t loss_scale_good = 0;
  // The results of evaluations.
  float rate_scale = 1;
  BestMetric plateau, early_stop;
  // Weights of the best evaluation, a file to put in when saving; null: none.
  const ByteSource* best_weights = nullptr;
  std::string config = "{}";  // JSON text of the whole config
  // JSON text of what identifies the training data (data_reader/data_identity.h), or empty.
  std::string trained_on;
  // Files to put in when saving, those of a folder after those of its subfolders.
  std::vector<CopiedFile> preparation;
  uint64_t run = 0;  // id of a run that removes its older snapshots (retention.h); 0: none
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
// the place, or it is the working directory or where a file system is mounted, or its parent
// directory cannot be written. For a check before hours of training.
void check_checkpoint_place(const std::string& dir);

// Reads and checks manifest.json. Throws DataError naming the file.
CheckpointMeta read_manifest(const std::string& dir);
// The same from text; `name` stands for the file in messages.
CheckpointMeta parse_manifest(const std::string& text, const std::string& name);

// kMayGrow: tables (TensorRef::grows) may have more rows than in a checkpoint.
enum class TableSizes { kSame, kMayGrow };

// Reads the tensors of the checkpoint whose manifest is `meta` to their places. Sizes, checksums,
// names and shapes must agree: else DataError with file, expected and found, and the tensors hold
// no meaningful values. Rows that a table has beyond the checkpoint's keep their values.
void load_checkpoint(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states,
                     TableSizes sizes = TableSizes::kSame);
// Drops what evaluations have led to, best weights included: they were taken on other data.
void forget_evaluations(CheckpointMeta& meta);

// kBest: the weights that a model is used with, those of its best evaluation, or the last ones
// where there are no best ones. kLast: those that training goes on from.
enum class Which { kBest, kLast };

// A file of weights, and its sum as the manifest of its checkpoint has it; no sum for one that was
// exported.
struct WeightsFile {
  std::string path;
  std::optional<FileSum> sum = {};
};

// Returns the weights of `model`, a checkpoint's directory or a file of weights, which is itself.
// Throws DataError for a damaged manifest.
WeightsFile weights_in(const std::string& model, Which which = Which::kBest);
// The same for the checkpoint `dir` whose manifest is `meta`.
WeightsFile weights_in(const std::string& dir, const CheckpointMeta& meta,
                       Which which = Which::kBest);

// Reads a file of weights, and throws DataError if its size or checksum is not that of its manifest.
void verify_weights(const ByteSource& file, const FileSum& expected);

// The best weights in a checkpoint, whose manifest is `meta`, or null where it has none. Throws
// DataError when they are not as they were saved.
std::unique_ptr<ReadFile> open_best_weights(const std::string& dir, const CheckpointMeta& meta);

// Returns true if trained weights are in a checkpoint's directory, not in a file that was exported.
bool is_checkpoint(const std::string& model);

// The folder of a checkpoint that holds a preparation, or empty where there is none.
std::string preparation_in(const std::string& model);

// Path of the optimizer's states in a checkpoint.
std::string last_states_file(const std::string& dir);

// Reads CheckpointMeta::trained_on of a checkpoint or a weights file, the identity of the data that
// its model was trained on. Throws DataError.
std::string trained_on(const std::string& model);

// Writes one safetensors file under a temporary name and renames it into place; returns its
// checksum. `trained_on`: as in CheckpointMeta; it goes into the file's metadata.
FileSum save_weights(const std::string& path, std::span<const TensorRef> tensors,
                     const std::string& trained_on = "");
// Reads all tensors of a file; names and shapes must agree exactly, and the sum where there is one:
// else DataError. Where there is none, FileError for a file that changes meanwhile.
void load_weights(const WeightsFile& weights, std::span<const TensorRef> tensors);

}  // namespace hlite::checkpoint
