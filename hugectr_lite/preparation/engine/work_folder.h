// The folder of an unfinished preparation: <out>/.prep, with its column files, and done.cbor, the
// state that says what is done. A state that is saved as durable is written after all other files
// of the folder were made durable, so it counts whatever ended the run: a signal or a power loss.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "hugectr_lite/core/file_lock.h"

namespace hlite::prep {

class WorkFolder {
 public:
  // Makes the folder and claims it until destruction. Throws FileError "<folder>: another run ..."
  // when another process has it.
  explicit WorkFolder(const std::string& out);

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // Returns what the last run left, if it left anything that can be used.
  [[nodiscard]] std::optional<nlohmann::ordered_json> load() const;
  // Makes the files of the folder durable, then the state; without `durable` it waits for no disk.
  void save(const nlohmann::ordered_json& state, bool durable);

  // Notes, durably, that results are getting their names: files of the output folder may be of
  // this run.
  void begin_publishing();
  [[nodiscard]] bool publishing() const;

  // Empties the folder.
  void clear();
  // Removes it.
  void remove();

 private:
  std::string folder_;
  FileLock lock_;
};

}  // namespace hlite::prep
