// The folder of an unfinished preparation: <out>/.prep, with its column files and what is known
// to be done.
//
// Two files say what is done. state.json is replaced often and never waits for the disk: the kernel
// keeps what was written when a process dies. It names the boot of the machine that it was written
// under. durable.json is written rarely, after everything that it speaks of was made durable: it
// counts when the machine was started anew since.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "hugectr_lite/core/file_lock.h"

namespace hlite::prep {

class WorkFolder {
 public:
  // Makes the folder and locks it until destruction. Throws FileError "<folder>: another run ..."
  // when another process has it.
  explicit WorkFolder(const std::string& out);

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // Returns what the last run left, if it left anything that can be used.
  [[nodiscard]] std::optional<nlohmann::ordered_json> load() const;
  void save(const nlohmann::ordered_json& state);
  // The same on disk. The caller has made durable what the state speaks of.
  void save_durable(const nlohmann::ordered_json& state);
  // Returns true if save_durable() was ever called for this preparation, by this run or an earlier
  // one.
  [[nodiscard]] bool has_durable() const { return has_durable_; }

  // Notes, durably, that results are getting their names: files of the output folder may be of
  // this run.
  void begin_publishing();
  [[nodiscard]] bool publishing() const;

  // Empties the folder.
  void clear();
  // Removes it, and the lock.
  void remove();

 private:
  std::string folder_;
  std::optional<FileLock> lock_;
  bool has_durable_ = false;
};

// Tells one start of this machine from another.
std::string boot_id();

}  // namespace hlite::prep
