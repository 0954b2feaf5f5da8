// A raw file with known contents and readers of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/async_reader.h"
#include "tests/data_reader/raw_file.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

inline config::AsyncParamConfig async_param(int64_t threads, int64_t batches, int64_t block,
                                            int64_t depth, int64_t alignment) {
  config::AsyncParamConfig p;
  p.num_threads = threads;
  p.num_batches_per_thread = batches;
  p.io_block_size = block;
  p.io_depth = depth;
  p.io_alignment = alignment;
  return p;
}

// Samples of 28 bytes by default.
struct RawFixture {
  explicit RawFixture(int64_t samples, RawShape with = {3, {5, 1, 70}, false, true})
      : shape(std::move(with)), data(shape.config()), words(raw_words(shape, samples)) {
    write();
  }
  void write() const { write_text(path, raw_text(words)); }
  std::unique_ptr<data::AsyncReader> reader(int64_t batch, const data::SourceOptions& options = {},
                                            const IoQueueFactory& open = {}) const {
    return std::make_unique<data::AsyncReader>(data, path, data::Split::kTrain, batch,
                                               shape.slot_rows, options, open);
  }
  [[nodiscard]] int64_t bytes() const { return 4 * static_cast<int64_t>(words.size()); }

  TemporaryDirectory dir;
  RawShape shape;
  config::DataConfig data;
  std::vector<uint32_t> words;
  std::string path = dir / "f.bin";
};

}  // namespace hlite::test
