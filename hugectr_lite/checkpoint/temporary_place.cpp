#include "hugectr_lite/checkpoint/temporary_place.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::checkpoint {

namespace fs = std::filesystem;

std::string temporary_name(const std::string& place) {
  return fmt::format("{}.tmp.{}", place, getpid());
}

void remove_stale(const std::string& place) {
  const std::string prefix = fs::path(place).filename().string() + ".tmp.";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent_directory(place), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto pid = parse_number<pid_t>(std::string_view(name).substr(prefix.size()));
    if (!pid || *pid <= 0) continue;
    if (*pid == getpid() || (kill(*pid, 0) != 0 && errno == ESRCH))
      fs::remove_all(entry.path(), error);  // another user's stays
  }
}

}  // namespace hlite::checkpoint
