#include "hugectr_lite/core/disk_folder.h"

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite {

TEST_CASE("file systems of networks and of memory are known by their numbers") {
  std::string name;
  CHECK(folder_kind(0x6969, &name) == FolderKind::kNetwork);
  CHECK(name == "nfs");
  CHECK(folder_kind(0xff534d42, &name) == FolderKind::kNetwork);
  CHECK(name == "cifs");
  CHECK(folder_kind(0x65735546, &name) == FolderKind::kNetwork);
  CHECK(name == "fuse");
  CHECK(folder_kind(0x01021994, &name) == FolderKind::kMemory);
  CHECK(name == "tmpfs");
  CHECK(folder_kind(0xef53) == FolderKind::kLocal);      // ext4
  CHECK(folder_kind(0x58465342) == FolderKind::kLocal);  // XFS
}

TEST_CASE("a folder has free space, and a path that is no folder is not usable") {
  const test::TemporaryDirectory folder;
  const DiskFolder here = inspect_folder(folder.path());
  CHECK(here.usable);
  CHECK(here.free_bytes > 0);
  CHECK_FALSE(inspect_folder(folder / "none").usable);
  test::write_text(folder / "file", "x");
  CHECK_FALSE(inspect_folder(folder / "file").usable);
}

}  // namespace hlite
