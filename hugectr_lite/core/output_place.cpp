#include "hugectr_lite/core/output_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // as in the kernel

int open_again(const std::string& path, int flags) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

bool others_can_write(const struct stat& folder) {
  return (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

bool is_trusted(uid_t owner, const struct stat& folder) {
  return owner == geteuid() || owner == folder.st_uid || owner == 0;
}

// Follows the links at `path` as far as they lie in folders that others can write. Each link is
// held open between the look at its owner and the reading of its target.
std::string follow_trusted(std::string path) {
  for (int i = 0; i < kMostLinks; ++i) {
    struct stat folder {
    }, status{};
    if (stat(parent_directory(path).c_str(), &folder) != 0 || !others_can_write(folder))
      return path;
    const FileDescriptor link(open_again(path, O_PATH | O_NOFOLLOW));
    if (link.get() < 0 || fstat(link.get(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
    if (!is_trusted(status.st_uid, folder))
      raise<FileError>(
          "{}: expected a file, or a link of this user's, found a link of user {} in a folder that "
          "others can write; it is not followed",
          path, status.st_uid);
    std::array<char, PATH_MAX> target{};
    const ssize_t size = readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) return path;
    // An absolute target takes the place of the folder.
    path = (fs::path(parent_directory(path)) /
            std::string_view(target.data(), static_cast<size_t>(size)))
               .string();
  }
  raise<FileError>("{}: expected a file, found links that lead round in a circle", path);
}

[[noreturn]] void fail_create(const std::string& path, const char* what) {
  raise<FileError>("{}: cannot create{}: {}", path, what, std::generic_category().message(errno));
}

}  // namespace

FileDescriptor open_output(const std::string& path, int flags) {
  for (int i = 0; i < kMostLinks; ++i) {
    const std::string real = follow_trusted(path);
    struct stat folder {};
    const bool shared =
        stat(parent_directory(real).c_str(), &folder) == 0 && others_can_write(folder);
    // What became a link since it was looked at is looked at again.
    FileDescriptor fd(open_again(real, shared ? flags | O_NOFOLLOW : flags));
    if (fd.get() >= 0 || errno != ELOOP || !shared) return fd;
  }
  raise<FileError>("{}: expected a file, found links that change while they are followed", path);
}

void expect_output_place(const std::string& path) {
  const fs::path named(path);  // "folder/" names what "folder" does
  const std::string real =
      follow_trusted(named.has_filename() ? path : named.parent_path().string());
  struct stat folder {
  }, status{};
  if (stat(parent_directory(real).c_str(), &folder) != 0 || lstat(real.c_str(), &status) != 0)
    return;
  // As the kernel decides on rename(2).
  if ((folder.st_mode & S_ISVTX) != 0 && geteuid() != 0 && status.st_uid != geteuid() &&
      folder.st_uid != geteuid())
    raise<FileError>(
        "{}: expected nothing or one of this user's, found one of user {}, which only "
        "that user can replace in this folder",
        path, status.st_uid);
}

std::string temporary_name(const std::string& place) {
  uint64_t number = 0;
  if (getentropy(&number, sizeof number) != 0) fail_create(place, " a temporary name");
  return fmt::format("{}.tmp.{}.{:016x}", place, getpid(), number);
}

std::string temporary_file(const std::string& place) {
  remove_stale(place);
  std::string path = temporary_name(place);
  const FileDescriptor made(open_again(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
  if (made.get() < 0) fail_create(path, "");
  return path;
}

std::string temporary_directory(const std::string& place) {
  remove_stale(place);
  std::string path = temporary_name(place);
  if (mkdir(path.c_str(), 0777) != 0) fail_create(path, " the directory");
  return path;
}

void remove_stale(const std::string& place) {
  const std::string prefix = fs::path(place).filename().string() + ".tmp.";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent_directory(place), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    // "<pid>.<random>", or "<pid>" of earlier versions.
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    const std::string_view digits = rest.substr(0, rest.find('.'));
    constexpr size_t kRandom = 1 + 16;
    if (rest.size() != digits.size() && rest.size() != digits.size() + kRandom) continue;
    const auto pid = parse_number<pid_t>(digits);
    if (!pid || *pid <= 0) continue;
    if (*pid == getpid() || (kill(*pid, 0) != 0 && errno == ESRCH))
      fs::remove_all(entry.path(), error);  // another user's stays
  }
}

void replace_file(const std::string& path, const std::function<void(const std::string&)>& write) {
  const std::string temporary = temporary_file(path);
  try {
    write(temporary);
    rename_path(temporary, path);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to report
    fs::remove(temporary, ignored);
    throw;
  }
}

void replace_file(const std::string& path, std::string_view text) {
  replace_file(path, [&](const std::string& temporary) {
    WriteFile file(temporary);
    file.write(std::as_bytes(std::span(text)));
    file.close();
  });
}

}  // namespace hlite
