#include "hugectr_lite/checkpoint/retention.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::checkpoint {
namespace {

namespace fs = std::filesystem;

// Returns true if the manifest of a directory says that this run wrote it.
bool is_of_run(const std::string& dir, uint64_t run) {
  try {
    return read_manifest(dir).run == run;
  } catch (const Error&) {  // damaged, or no checkpoint
    return false;
  }
}

}  // namespace

void remove_older_snapshots(const Retention& retention) {
  HLITE_CHECK(retention.run != 0 && retention.keep > 0, "run {}, keep {}", retention.run,
              retention.keep);
  const std::string folder = parent_directory(retention.prefix),
                    begin = fs::path(retention.prefix).filename().string();
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string(); name.starts_with(begin))
      names.push_back(name.substr(begin.size()));
  std::vector<std::pair<int64_t, std::string>> snapshots;  // by iteration
  for (const std::string& name : names) {
    const std::string number = name.substr(0, name.find(".tmp."));
    const auto iteration = parse_number<int64_t>(std::string_view(number));
    if (!iteration || *iteration < 0 || std::to_string(*iteration) != number) continue;
    const std::string place = retention.prefix + number;
    if (name != number)
      remove_stale(place);  // a process was killed while it wrote or removed one
    else if (is_of_run(place, retention.run))
      snapshots.emplace_back(*iteration, place);
  }
  std::sort(snapshots.begin(), snapshots.end(), std::greater<>());
  for (size_t i = static_cast<size_t>(retention.keep); i < snapshots.size(); ++i) {
    const std::string& place = snapshots[i].second;
    if (fs::equivalent(place, retention.resumed, error)) continue;
    // The rename takes it away as a whole, so that no process finds a part of it.
    const std::string removed = temporary_name(place);
    rename_path(place, removed);
    remove_path(removed);
  }
}

}  // namespace hlite::checkpoint
