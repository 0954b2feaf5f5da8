// A model under its name, and the version of it that is served.
//
// A folder with the numbered folders 1/, 2/, ... (checkpoints) is watched, and so is a chain of
// deltas, each link of which makes another version (version_list.h). A newer version is loaded
// while the current one serves, checked, warmed up with recent requests and swapped in. Requests
// that have the old one keep it until they are answered. A version that cannot be loaded is named
// in the log and in index(), and the current one goes on.
//
// The first version is served at once, and its checksum is checked meanwhile, as that reads all
// weights. If it is damaged, an older version takes its place, or requests are refused. So it is
// where the file of mapped weights is written to or cut short while it is served: a version gives
// scores of what it was when it was loaded, or none. Once its checksum is right again, it is loaded
// again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hugectr_lite/serve/kserve.h"
#include "hugectr_lite/serve/scorer.h"
#include "hugectr_lite/serve/version_list.h"

namespace hlite::serve {

struct ServedModelOptions {
  std::string name = {};
  ScorerOptions scorer = {};             // whose model may be a folder of versions
  std::string deltas = {};               // a chain that begins at one of them, or none
  std::chrono::milliseconds poll{1000};  // between looks for newer versions
};

// Features and keys as a request had them.
struct RecordedRequest {
  std::vector<float> dense;
  std::vector<int64_t> keys;
};

// A version that is in memory.
struct LoadedVersion {
  VersionNumber number;
  int64_t stamp = 0;    // VersionList::stamp() from before it was loaded
  std::string version;  // the number as text
  ModelDescription description;
  mutable std::atomic<int64_t> users{0};  // requests that are under way
  mutable InferenceStats stats;
  std::unique_ptr<Scorer> scorer;  // ends first, and with it all requests
};

class ServedModel {
 public:
  // Loads the newest version that is good. Throws what Scorer throws where there is none. `metrics`
  // must outlive it.
  ServedModel(const ServedModelOptions& options, Metrics& metrics);
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  // The current version, which stays in memory as long as the pointer is held. Throws RequestError
  // (503) where the only version has turned out to be damaged, or its file has changed.
  using Lease = std::shared_ptr<const LoadedVersion>;
  [[nodiscard]] Lease current() const;

  // Loads a version and stays with it, or with an empty one goes on to the newest, also later.
  // `done` gets an error or nothing, on another thread.
  void load(const std::string& version, std::function<void(const std::string& error)> done);

  struct VersionState {
    std::string version;
    bool ready;
    std::string reason;  // why it is not
  };
  [[nodiscard]] std::vector<VersionState> index() const;

  // From now on no batch waits for more samples.
  void drain();

  // Keeps a request now and then, to warm up later versions with.
  void record(const RecordedRequest& request);

 private:
  struct Command {
    std::string version;
    std::function<void(const std::string&)> done;
  };
  [[nodiscard]] std::unique_ptr<LoadedVersion> load_version(const VersionNumber& number,
                                                            bool verify) const;
  void warm_up(const LoadedVersion& version) const;
  void swap_in(std::unique_ptr<LoadedVersion> version);
  // Why there is no version to serve; empty: there is one. REQUIRES mutex_.
  [[nodiscard]] std::string why_none() const;
  // Swaps in the newest version above `above` that is good; false: there is none.
  bool take_newest(const VersionNumber& above);
  bool take_newest() { return take_newest(damaged_.empty() ? current_->number : VersionNumber{}); }
  // `stamp`: the version's, from before it was loaded. Logs a reason that is new.
  void refuse(const VersionNumber& version, int64_t stamp, const std::string& reason);
  // Calls check(), and has another version take the place of the current one where it throws.
  void check_current(const std::function<void()>& check);
  void watch();
  void obey(const Command& command);
  void end_unused();

  const ServedModelOptions options_;
  Metrics& all_metrics_;
  const ModelMetrics metrics_;
  const VersionList versions_;
  bool pinned_ = false;  // to a version that was asked for

  mutable std::mutex mutex_;
  std::unique_ptr<LoadedVersion> current_;
  std::string damaged_;  // why there is no version to serve
  std::vector<std::unique_ptr<LoadedVersion>> retired_;
  struct Refusal {
    int64_t stamp;  // of the version's files at the last look
    bool settled;   // was tried after two looks had found this stamp
    std::string reason;
  };
  std::map<VersionNumber, Refusal> refused_;
  std::deque<RecordedRequest> recorded_;
  Clock::time_point next_record_{};
  std::deque<Command> commands_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread watcher_;
};

}  // namespace hlite::serve
