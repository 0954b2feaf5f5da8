#include "hugectr_lite/serve/version_list.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::serve {

namespace fs = std::filesystem;

namespace {

std::optional<int64_t> positive_number(const std::string& text) {
  const auto number = parse_number<int64_t>(text);
  return number && *number > 0 && text[0] != '0' ? number : std::nullopt;
}

std::vector<int64_t> numbered_folders(const std::string& folder) {
  std::vector<int64_t> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto number = positive_number(entry.path().filename().string()))
      numbers.push_back(*number);
  return numbers;
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Of all that lies in a folder, in whatever order it is listed. A copy may have the time of writing
// of what it replaces, but not its change time.
uint64_t stamp_of(const std::string& folder) {
  const auto entry_stamp = [](const std::string& path) {
    struct stat status = {};
    uint64_t stamp = std::hash<std::string>()(path);
    if (::stat(path.c_str(), &status) != 0) return mix(stamp);
    for (const auto value :
         {static_cast<uint64_t>(status.st_ino), static_cast<uint64_t>(status.st_size),
          static_cast<uint64_t>(status.st_mtim.tv_sec),
          static_cast<uint64_t>(status.st_mtim.tv_nsec),
          static_cast<uint64_t>(status.st_ctim.tv_sec),
          static_cast<uint64_t>(status.st_ctim.tv_nsec)})
      stamp = mix(stamp + value);
    return stamp;
  };
  uint64_t sum = entry_stamp(folder);
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    sum += entry_stamp(at->path().string());
  return sum;
}

}  // namespace

std::string VersionNumber::text() const {
  return iteration == 0 ? std::to_string(version) : fmt::format("{}.{}", version, iteration);
}

std::optional<VersionNumber> parse_version(const std::string& text) {
  const size_t dot = text.find('.');
  const auto version = positive_number(text.substr(0, dot));
  if (!version) return std::nullopt;
  if (dot == std::string::npos) return VersionNumber{.version = *version};
  const auto iteration = positive_number(text.substr(dot + 1));
  if (!iteration) return std::nullopt;
  return VersionNumber{.version = *version, .iteration = *iteration};
}

VersionList::VersionList(std::string model, std::string deltas)
    : model_(std::move(model)),
      deltas_(std::move(deltas)),
      numbered_(!exists(model_ + "/manifest.json") && !numbered_folders(model_).empty()) {}

std::string VersionList::model_of(const VersionNumber& number) const {
  return numbered_ || number.version != 1 ? fmt::format("{}/{}", model_, number.version) : model_;
}

std::string VersionList::link_of(const VersionNumber& number) const {
  return checkpoint::delta_link(deltas_, number.iteration);
}

std::vector<VersionNumber> VersionList::list() const {
  const auto links =
      deltas_.empty() ? std::vector<int64_t>() : checkpoint::link_iterations(deltas_);
  std::vector<VersionNumber> versions;
  for (const int64_t version : numbered_ ? numbered_folders(model_) : std::vector<int64_t>{1}) {
    const std::string model = model_of({.version = version});
    if (numbered_ && !exists(model + "/manifest.json")) continue;
    versions.push_back({.version = version});
    if (links.empty()) continue;
    try {
      const int64_t from =
          checkpoint::is_checkpoint(model) ? checkpoint::read_manifest(model).iteration : 0;
      for (const int64_t iteration : links)
        if (iteration > from) versions.push_back({.version = version, .iteration = iteration});
    } catch (const Error&) {  // loading the version says what is wrong with it
    }
  }
  std::sort(versions.rbegin(), versions.rend());
  return versions;
}

bool VersionList::has_checksum(const VersionNumber& number) const {
  return number.iteration > 0 || checkpoint::is_checkpoint(model_of(number));
}

int64_t VersionList::stamp(const VersionNumber& number) const {
  uint64_t sum = stamp_of(model_of(number));
  if (number.iteration > 0)
    for (const int64_t iteration : checkpoint::link_iterations(deltas_))
      if (iteration <= number.iteration)
        sum += stamp_of(checkpoint::delta_link(deltas_, iteration));
  return static_cast<int64_t>(sum);
}

}  // namespace hlite::serve
