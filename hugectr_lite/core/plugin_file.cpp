#include "hugectr_lite/core/plugin_file.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace hlite {

std::vector<std::string> plugin_folders() {
  namespace fs = std::filesystem;
  std::vector<std::string> folders;
  std::error_code error;
  Dl_info code{};
  if (dladdr(reinterpret_cast<void*>(&plugin_folders), &code) != 0 && code.dli_fname) {
    // A program's own name has no folder if the shell found it on PATH.
    const fs::path file(code.dli_fname);
    if (file.has_parent_path())
      folders.push_back(fs::weakly_canonical(file.parent_path(), error).string());
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error && (folders.empty() || folders[0] != program.parent_path()))
    folders.push_back(program.parent_path().string());
  return folders;
}

std::string plugin_file(const std::string& library) {
  for (const std::string& folder : plugin_folders()) {
    std::string path = folder + "/" + library;
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return library;
}

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "the loader gives no reason";
}

}  // namespace hlite
