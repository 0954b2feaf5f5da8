#include "hugectr_lite/preparation/engine/output_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::prep {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRoles[] = {"train", "val", "test"};

// Files of one of these endings in a subfolder that only results have.
struct ResultFolder {
  std::string name;
  std::vector<std::string> endings;
};

std::vector<ResultFolder> result_folders() {
  std::vector<ResultFolder> folders = {{"vocabulary", {".txt", ".npy"}}};
  for (const std::string role : kRoles) folders.push_back({role + "_norm", {".norm"}});
  return folders;
}

}  // namespace

std::vector<std::string> results_in(const std::string& folder) {
  std::vector<std::string> names = {"manifest.json", "key_counts.bin"}, found;
  for (const std::string role : kRoles) {
    names.push_back(role + ".bin");
    names.push_back(role + "_list.txt");
  }
  std::error_code none;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found), [&](const std::string& name) {
    return fs::exists(fs::symlink_status(fs::path(folder) / name, none));
  });
  for (const ResultFolder& results : result_folders())
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / results.name, none))
      if (std::count(results.endings.begin(), results.endings.end(), entry.path().extension()) > 0)
        found.push_back(results.name + "/" + entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

void refuse_results(const std::string& out, const std::vector<std::string>& found) {
  if (found.empty()) return;
  std::set<std::string> shown;  // a subfolder once
  for (const std::string& name : found)
    shown.insert(name.substr(0, std::min(name.find('/'), name.size() - 1) + 1));
  raise<ConfigError>(
      "{}: expected no files of an earlier run, found {}; choose another --out, or replace all of "
      "them with --force",
      out, fmt::join(shown, ", "));
}

void remove_other_results(const std::string& folder, const std::vector<std::string>& kept) {
  for (const std::string& name : results_in(folder))
    if (std::find(kept.begin(), kept.end(), name) == kept.end()) remove_path(folder + "/" + name);
  std::error_code none;
  for (const ResultFolder& results : result_folders()) {
    const fs::path path = fs::path(folder) / results.name;
    if (fs::is_directory(path, none) && fs::is_empty(path, none)) fs::remove(path, none);
  }
}

}  // namespace hlite::prep
