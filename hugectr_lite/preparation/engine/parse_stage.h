// The first stage of a preparation: text files to a BlockSink, by all threads.
//
// Blocks of lines go through a ring of slots: read (one thread at a time, in order), parsed (any),
// placed (in order: only then is known which row a block begins with), handed to the sink,
// committed (in order). A later run does not repeat files that are committed as a whole. No thread
// waits while there is a block that it could do something with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/block_sink.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/engine/row_parser.h"
#include "hugectr_lite/preparation/io/stage_progress.h"

namespace hlite::prep {

// The state of the sink.
struct ParseState {
  bool done = false;
  int64_t rows = 0;
  std::vector<data::ManifestSource> sources;  // one an input, so far
  std::vector<std::string> first_lines;       // of the same
  std::vector<int64_t> missing;               // a slot: training rows without a category
  [[nodiscard]] int64_t bad_rows() const;
  [[nodiscard]] int64_t rows_of(std::string_view role) const;
};

// Goes on from `state`, of whole inputs, until all inputs are read. `save(state)` is called at the
// ends of inputs, by one thread at a time, and at the end.
// Throws what PrepEngine::parse() throws.
void parse_inputs(const PrepOptions& options, RowParser& parser, BlockSink& sink, ParseState& state,
                  const std::function<void(const ParseState&)>& save, StageProgress& progress,
                  ThreadPool& pool);

}  // namespace hlite::prep
