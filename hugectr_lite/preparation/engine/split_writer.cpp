#include "hugectr_lite/preparation/engine/split_writer.h"

#include <algorithm>
#include <array>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/preparation/engine/output_folder.h"
#include "hugectr_lite/preparation/engine/row_encoder.h"
#include "hugectr_lite/preparation/engine/row_shuffle.h"
#include "hugectr_lite/preparation/engine/split_files.h"

namespace hlite::prep {
namespace {

constexpr int64_t kMaxChunkBytes = int64_t{4} << 20;
constexpr int64_t kWindows = 2;          // one is encoded, one written
constexpr int64_t kChunksPerThread = 2;  // of a window

class ChunkedWriter {
 public:
  ChunkedWriter(const RowEncoder& encoder, SplitFiles& files, const RowShape& shape,
                int64_t rows_in_all, int64_t memory_bytes, const SplitResources& resources,
                ThreadPool& pool)
      : encoder_(encoder),
        files_(files),
        words_(shape.words()),
        rows_in_all_(rows_in_all),
        resources_(resources),
        pool_(pool),
        row_buffers_(static_cast<size_t>(pool.threads())) {
    const int64_t threads = pool.threads(), row = encoder.bytes_per_row();
    const int64_t of_chunk_row = kWindows * kChunksPerThread * row + 4 * words_;
    // Encoding takes scratch memory for the dense values, twice: hence the half.
    chunk_rows_ = std::clamp<int64_t>(memory_bytes / 2 / threads / of_chunk_row, 1,
                                      std::max<int64_t>(kMaxChunkBytes / row, 1));
    for (auto& window : windows_)
      window.chunks.resize(static_cast<size_t>(threads * kChunksPerThread));
  }

  // The rows that follow those of the calls before.
  void append(const RowSource& rows) {
    for (int64_t at = 0; at < rows.rows();) {
      pieces_.clear();
      while (at < rows.rows() && pieces_.size() < windows_[0].chunks.size()) {
        const int64_t count =
            std::min({chunk_rows_, rows.rows() - at, files_.rows_in_file(planned_)});
        pieces_.push_back({at, count});
        at += count;
        planned_ += count;
      }
      encode_and_write(&rows);
    }
  }

  // Writes rows that are still in memory.
  WrittenSplit finish() {
    pieces_.clear();
    encode_and_write(nullptr);
    HLITE_CHECK(written_ == rows_in_all_, "{} of {} rows", written_, rows_in_all_);
    WrittenSplit split = files_.finish();
    split.file.rows = written_;
    split.file.positives = positives_;
    split.file.labels = labels_.moments();
    return split;
  }

 private:
  struct RowSpan {
    int64_t first, count;
  };
  struct EncodedWindow {
    std::vector<EncodedRows> chunks;
    size_t used = 0;
  };

  // Task 0 writes the window encoded before, the others encode the pieces into the other window.
  void encode_and_write(const RowSource* rows) {
    EncodedWindow& full = windows_[static_cast<size_t>(current_)];
    EncodedWindow& next = windows_[static_cast<size_t>(1 - current_)];
    pool_.run(static_cast<int64_t>(pieces_.size()) + 1, [&](int64_t task, int worker) {
      if (task == 0) return write(full);
      const auto i = static_cast<size_t>(task - 1);
      std::vector<uint32_t>& buffer = row_buffers_[static_cast<size_t>(worker)];
      buffer.resize(static_cast<size_t>(pieces_[i].count * words_));
      rows->read(pieces_[i].first, pieces_[i].count, buffer.data());
      encoder_.encode(buffer.data(), pieces_[i].count, next.chunks[i]);
    });
    full.used = 0;
    next.used = pieces_.size();
    current_ = 1 - current_;
    if (resources_.progress) resources_.progress(written_, rows_in_all_);
  }

  void write(const EncodedWindow& window) {
    for (size_t i = 0; i < window.used; ++i) {
      files_.write(window.chunks[i]);
      written_ += window.chunks[i].rows;
      positives_ += window.chunks[i].positives;
      for (const WeightedLabel& label : window.chunks[i].labels) labels_.add(label);
    }
  }

  const RowEncoder& encoder_;
  SplitFiles& files_;
  int64_t words_, rows_in_all_;
  const SplitResources& resources_;
  ThreadPool& pool_;
  int64_t chunk_rows_;
  std::vector<std::vector<uint32_t>> row_buffers_;  // of each worker
  std::array<EncodedWindow, kWindows> windows_;
  int current_ = 0;
  std::vector<RowSpan> pieces_;
  int64_t planned_ = 0, written_ = 0, positives_ = 0;
  LabelSums labels_;
};

}  // namespace

void WrittenSplit::commit() {
  for (const auto& output : outputs) output->commit();
}

WrittenSplit write_split(const RowSource& rows, const std::string& role,
                         std::span<const int64_t> slot_sizes, const OutputOptions& options,
                         const SplitResources& resources, ThreadPool& pool) {
  const bool shuffle = options.shuffle && role == "train";
  const RowEncoder encoder(options, rows.shape(), slot_sizes);
  make_folder(options.folder);
  const auto files = make_split_files(role, rows.rows(), options, rows.shape());
  SplitResources for_shuffle = resources;
  for_shuffle.memory_bytes = shuffle ? resources.memory_bytes / 4 * 3 : 0;
  ChunkedWriter writer(encoder, *files, rows.shape(), rows.rows(),
                       resources.memory_bytes - for_shuffle.memory_bytes, resources, pool);
  if (shuffle) {
    shuffle_rows(rows, options.seed, for_shuffle, pool,
                 [&](const RowSource& piece) { writer.append(piece); });
  } else {
    writer.append(rows);
  }
  return writer.finish();
}

void publish(const std::string& folder, data::Manifest& manifest, std::span<WrittenSplit> splits) {
  for (const WrittenSplit& split : splits) {
    manifest.files.push_back(split.file);
    const double rate = split.file.label_rate();
    if (!manifest.real_label && split.file.rows > 0 && (rate == 0 || rate == 1))
      log::warning("{}: all labels are {}: nothing can be learnt from them", split.file.name, rate);
  }
  const std::string path = folder + "/manifest.json";
  OutputFile file(path);
  file.write(manifest.to_json());
  file.finish();
  remove_path(path);
  std::vector<std::string> kept;
  for (const WrittenSplit& split : splits)
    for (const auto& output : split.outputs)
      kept.push_back(output->path().substr(folder.size() + 1));
  remove_other_results(folder, kept);
  for (WrittenSplit& split : splits) split.commit();
  file.commit();
}

}  // namespace hlite::prep
