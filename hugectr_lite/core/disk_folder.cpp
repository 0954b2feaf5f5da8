#include "hugectr_lite/core/disk_folder.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>

namespace hlite {

FolderKind folder_kind(uint64_t number, std::string* name) {
  struct Known {
    uint64_t number;
    const char* name;
    FolderKind kind;
  };
  // statfs(2) and linux/magic.h.
  static constexpr Known kKnown[] = {
      {0x6969, "nfs", FolderKind::kNetwork},       {0x517b, "smb", FolderKind::kNetwork},
      {0xfe534d42, "smb2", FolderKind::kNetwork},  {0xff534d42, "cifs", FolderKind::kNetwork},
      {0x65735546, "fuse", FolderKind::kNetwork},  {0x01021997, "9p", FolderKind::kNetwork},
      {0x00c36400, "ceph", FolderKind::kNetwork},  {0x0bd00bd0, "lustre", FolderKind::kNetwork},
      {0x47504653, "gpfs", FolderKind::kNetwork},  {0x19830326, "beegfs", FolderKind::kNetwork},
      {0x5346414f, "afs", FolderKind::kNetwork},   {0x01161970, "gfs2", FolderKind::kNetwork},
      {0x7461636f, "ocfs2", FolderKind::kNetwork}, {0x01021994, "tmpfs", FolderKind::kMemory},
      {0x858458f6, "ramfs", FolderKind::kMemory}};
  for (const Known& known : kKnown)
    if (known.number == number) {
      if (name) *name = known.name;
      return known.kind;
    }
  return FolderKind::kLocal;
}

DiskFolder inspect_folder(const std::string& path) {
  DiskFolder folder;
  struct statfs of = {};
  std::error_code error;
  if (!std::filesystem::is_directory(path, error) || ::statfs(path.c_str(), &of) != 0)
    return folder;
  folder.usable = ::access(path.c_str(), W_OK | X_OK) == 0;
  // The field is signed, and 32 bits wide in effect.
  folder.kind = folder_kind(static_cast<uint32_t>(of.f_type), &folder.file_system);
  folder.free_bytes = static_cast<int64_t>(of.f_bavail) * static_cast<int64_t>(of.f_bsize);
  return folder;
}

}  // namespace hlite
