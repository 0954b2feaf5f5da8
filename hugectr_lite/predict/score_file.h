// Scores in the order of the samples, as a file that is there complete or not at all.
#pragma once

#include <memory>
#include <span>
#include <string>

namespace hlite::predict {

class ScoreFile {
 public:
  virtual ~ScoreFile() = default;
  // Before the first scores: names of the columns that are written next to them, as CSV text.
  // REQUIRES a file of text.
  virtual void set_extra_columns(const std::string& columns) = 0;
  // `extra_columns`: CSV text of those columns for each score; empty without set_extra_columns().
  // Throws FileError.
  virtual void add(std::span<const float> scores,
                   std::span<const std::string> extra_columns = {}) = 0;
  // All scores were added: writes them to the disk, under a temporary name. Throws FileError.
  virtual void finish() = 0;
  // finish(), if that was not done yet; then the file appears under its name. Without close()
  // nothing does.
  virtual void close() = 0;
};

// By the ending of `path`:
//   .csv   the line "score", then a score a line, the shortest text that reads back as the same
//          float, each after the columns of set_extra_columns(); "-" is standard output
//   .npy   float32, one dimension; kept in memory until close()
// Throws ConfigError for another ending, FileError.
std::unique_ptr<ScoreFile> open_score_file(const std::string& path);
// Returns true if such a file can hold other columns, which only text can.
bool takes_columns(const std::string& path);

}  // namespace hlite::predict
