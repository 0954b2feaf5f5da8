// DiskFolder: how well a folder is suited to large scratch files.
#pragma once

#include <cstdint>
#include <string>

namespace hlite {

// From the best for this to the worst.
enum class FolderKind { kLocal, kNetwork, kMemory };

struct DiskFolder {
  bool usable = false;  // it is there, and this process may make files in it
  FolderKind kind = FolderKind::kLocal;
  std::string file_system;  // "nfs"; empty: one of no special kind
  int64_t free_bytes = 0;   // for a process without privileges
};
DiskFolder inspect_folder(const std::string& path);

// Classifies a file system by its number in statfs(2). Sets *name if it is a known one.
FolderKind folder_kind(uint64_t number, std::string* name = nullptr);

}  // namespace hlite
