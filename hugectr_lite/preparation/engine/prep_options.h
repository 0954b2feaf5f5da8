// The options of a preparation, as far as the engine (prep_engine.h) is concerned.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/error.h"

namespace CLI {
class App;
}

namespace hlite::prep {

// SIGINT or SIGTERM: what was done is kept.
class Interrupted final : public InterruptedError {
 public:
  Interrupted() : InterruptedError("interrupted; run the same command again to go on") {}
};

struct PrepInput {
  std::string path;           // "-": standard input
  std::string role;           // of the manifest's source; rows of "train" are training rows
  bool may_be_empty = false;  // the file may have no row of this role
};

struct PrepOptions {
  std::vector<PrepInput> inputs;  // those with role "train" come first
  std::string out;
  // Other options that decide the results, as a JSON object: a run goes on only under the same.
  std::string identity = "{}";
  int64_t max_bad_rows = 0;  // malformed rows to skip, over all files, before giving up
  double max_unknown = 1;    // most of a column's values in val or test that training lacks
  double sample = 1;         // share of the lines to keep, drawn by (seed, file, line)
  // Share of the training rows with label 0 to keep, drawn likewise.
  double negative_share = 1;
  uint64_t seed = 0;
  int threads = 0;       // 0: all that this process may use
  int64_t memory = 0;    // bytes; 0: half of what the machine has available
  bool restart = false;  // forget an unfinished run
  bool force = false;    // replace another preparation in `out`, finished or not
  bool quiet = false;
  int64_t block_bytes = 1 << 20;  // of text parsed as one piece; also the longest line

  // Used by tests. Called at every point where a crash could matter, by the thread that is there,
  // with a name for the point; may throw or end the process.
  std::function<void(std::string_view point)> at_point;
  // Between two states that are saved; 0: after every input and table, not waiting for the disk.
  double checkpoint_seconds = 60;
  int64_t numbering_bytes = 0;  // memory for the dictionaries; 0: what `memory` leaves
};

// Adds --sample, --negative-share, --max-bad-rows, --max-unknown, --memory, --threads, --restart,
// --force and --quiet.
void add_run_options(CLI::App& app, PrepOptions& options);
// Throws ConfigError for no training file, standard input given twice, a file that is given for
// training and for validation, a share to sample that is none.
void check_inputs(const std::vector<std::string>& train, const std::vector<std::string>& val,
                  const PrepOptions& options);
// Memory that these options allow, in bytes. Throws ConfigError for too little.
int64_t allowed_memory(const PrepOptions& options);

}  // namespace hlite::prep
