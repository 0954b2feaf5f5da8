// FollowedFiles: goes through the files of a folder that grows.
#pragma once

#include <string>

#include "hugectr_lite/trainer/run/saver.h"

namespace hlite::trainer {

// If at_end(), call next() before a step, score the file that it names, then open() it. All
// functions are collective and throw DataError.
class FollowedFiles {
 public:
  FollowedFiles(RunContext& run, Saver& saver) : run_(run), saver_(saver) {}

  // Makes the folder the source of the run. Throws ConfigError for options that need data of a
  // known size (--mllog).
  void open_folder();
  // Returns true if all of the open file has been trained on; false without a folder.
  [[nodiscard]] bool at_end() const { return run_.followed && run_.followed->at_end_of_file(); }
  // Waits for a file. Returns its name, kEnd if none will come, or kNothing after a stop request.
  [[nodiscard]] data::FollowedSource::NextFile next();
  void open(const std::string& file);

 private:
  RunContext& run_;
  Saver& saver_;
};

}  // namespace hlite::trainer
