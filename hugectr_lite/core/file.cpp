#include "hugectr_lite/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/output_place.h"

namespace hlite {
namespace {
// One call moves at most this much: Linux stops at 2 GiB, and errors name a nearer offset.
constexpr size_t kMaxPerCall = size_t{64} << 20;
constexpr const char* kOld = ".tmp.old";

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_read(const std::string& path, size_t bytes, int64_t offset,
                            const std::string& why) {
  raise<FileError>("{}: cannot read {} bytes at offset {}: {}", path, bytes, offset, why);
}

bool exists(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR)
    raise<FileError>("{}: cannot look: {}", path, reason(errno));
  return false;
}

int open_retrying(const char* path, int flags) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd;
}
}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

ReadFile::ReadFile(std::string path) : path_(std::move(path)) {
  expect_no_pipe(path_);
  fd_ = FileDescriptor(open_retrying(path_.c_str(), O_RDONLY));
  if (fd_.get() < 0) raise<FileError>("{}: cannot open: {}", path_, reason(errno));
  if (fstat(fd_.get(), &opened_) != 0)
    raise<FileError>("{}: cannot find its size: {}", path_, reason(errno));
  if (S_ISDIR(opened_.st_mode)) raise<FileError>("{}: cannot open: it is a directory", path_);
  size_ = opened_.st_size;
}

void ReadFile::read(int64_t offset, std::span<std::byte> out) const {
  const size_t bytes = out.size();
  int64_t at = offset;
  while (!out.empty()) {
    const ssize_t got =
        pread(fd_.get(), out.data(), std::min(out.size(), kMaxPerCall), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(path_, bytes, offset, reason(errno));
    if (got == 0) {
      struct stat now {};
      if (fstat(fd_.get(), &now) == 0) at = std::min<int64_t>(at, now.st_size);
      fail_read(path_, bytes, offset,
                fmt::format("the file ends at {} (it had {} bytes when it was opened)", at, size_));
    }
    at += got;
    out = out.subspan(static_cast<size_t>(got));
  }
}

void ReadFile::will_need(int64_t offset, int64_t bytes) const {
  posix_fadvise(fd_.get(), offset, bytes, POSIX_FADV_WILLNEED);
}

void ReadFile::expect_unchanged() const {
  struct stat now {};
  const auto same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  // A copy may bring its own time of writing (cp -p), but not its change time. A name that comes or
  // goes changes that as well.
  if (fstat(fd_.get(), &now) == 0 && now.st_size == opened_.st_size &&
      same(now.st_mtim, opened_.st_mtim) &&
      (same(now.st_ctim, opened_.st_ctim) || now.st_nlink != opened_.st_nlink))
    return;
  raise<FileError>("{}: the file has changed since it was opened", path_);
}

WriteFile::WriteFile(std::string path, int64_t kept)
    : path_(std::move(path)),
      fd_(open_output(path_, O_WRONLY | O_CREAT | (kept > 0 ? 0 : O_TRUNC))),
      offset_(kept - kept % static_cast<int64_t>(kDirectAlign)) {
  if (fd_.get() < 0) raise<FileError>("{}: cannot create: {}", path_, reason(errno));
  if (kept == 0) return;
  if (const int64_t size = lseek(fd_.get(), 0, SEEK_END); size < kept)
    raise<FileError>("{}: expected at least {} bytes, found {}", path_, kept, size);
  if (ftruncate(fd_.get(), kept) != 0 || lseek(fd_.get(), offset_, SEEK_SET) != offset_)
    raise<FileError>("{}: cannot go on at byte {}: {}", path_, kept, reason(errno));
}

bool WriteFile::set_direct(bool on) {
  if (direct_ == on) return true;
  const int flags = fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || fcntl(fd_.get(), F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
    return false;
  direct_ = on;
  return true;
}

void WriteFile::write(std::span<const std::byte> bytes) {
  HLITE_CHECK(fd_.get() >= 0, "{} is closed", path_);
  while (!bytes.empty()) {
    size_t size = std::min(bytes.size(), kMaxPerCall);
    const bool wanted = !refuses_direct_ && size >= kDirectBytes &&
                        static_cast<size_t>(offset_) % kDirectAlign == 0 &&
                        reinterpret_cast<uintptr_t>(bytes.data()) % kDirectAlign == 0;
    refuses_direct_ |= !set_direct(wanted);
    if (direct_) size -= size % kDirectAlign;
    const ssize_t put = ::write(fd_.get(), bytes.data(), size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EINVAL && direct_) {  // the file system has coarser blocks
      refuses_direct_ = true;
      continue;
    }
    if (put < 0)
      raise<FileError>("{}: cannot write {} bytes at offset {}: {}", path_, bytes.size(), offset_,
                       reason(errno));
    offset_ += put;
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void WriteFile::write_ahead(std::span<const std::byte> bytes) {
  const int64_t begin = offset_;
  write(bytes);
  offset_ = begin;
  if (lseek(fd_.get(), begin, SEEK_SET) != begin)
    raise<FileError>("{}: cannot go back to byte {}: {}", path_, begin, reason(errno));
}

void WriteFile::close() {
  HLITE_CHECK(fd_.get() >= 0, "{} is closed", path_);
  // Delayed allocation: a full disk may show only here.
  if (fsync(fd_.get()) != 0)
    raise<FileError>("{}: cannot make {} bytes durable: {}", path_, offset_, reason(errno));
  // The descriptor is gone whatever close() says.
  if (::close(fd_.release()) != 0 && errno != EINTR)
    raise<FileError>("{}: cannot close after {} bytes: {}", path_, offset_, reason(errno));
}

void read_pieces(const ByteSource& file,
                 const std::function<void(std::span<const std::byte>)>& use) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::vector<std::byte> piece;
  for (int64_t at = 0; at < file.size(); at += std::ssize(piece)) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, file.size() - at)));
    file.read(at, piece);
    use(piece);
  }
}

std::string read_text(const ByteSource& file, int64_t most) {
  if (file.size() > most)
    raise<DataError>("{}: expected at most {} bytes, found {}", file.name(), most, file.size());
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void sync_directory(const std::string& path) {
  const FileDescriptor fd(open_retrying(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) raise<FileError>("{}: cannot open the directory: {}", path, reason(errno));
  // Some network file systems have no fsync for directories and say EINVAL.
  if (fsync(fd.get()) != 0 && errno != EINVAL)
    raise<FileError>("{}: cannot make the directory durable: {}", path, reason(errno));
}

void sync_file(const std::string& path) {
  const FileDescriptor fd(open_retrying(path.c_str(), O_RDONLY));
  if (fd.get() < 0 && errno == ENOENT) return;
  if (fd.get() < 0 || fdatasync(fd.get()) != 0)
    raise<FileError>("{}: cannot make durable: {}", path, reason(errno));
}

std::string resolve_path(const std::string& directory, const std::string& path, PathUse use) {
  namespace fs = std::filesystem;
  const fs::path given(path);
  if (given.is_absolute()) return path;
  const fs::path relative = fs::path(directory) / given;
  std::error_code ignored;
  if (use == PathUse::kInput && !fs::exists(relative, ignored) && fs::exists(given, ignored))
    return path;
  return relative.lexically_normal().string();
}

bool is_ambiguous(const std::string& directory, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path relative = fs::path(directory) / path;  // the path itself when absolute
  std::error_code ignored;
  return fs::exists(relative, ignored) && fs::exists(path, ignored) &&
         !fs::equivalent(relative, path, ignored);
}

bool is_device_or_pipe(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::is_other(status);
}

void expect_no_pipe(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
    raise<FileError>("{}: expected a file, found a pipe, which cannot be read twice", path);
}

void expect_no_input(const NamedPath& output, std::span<const NamedPath> inputs) {
  struct stat out {
  }, in{};
  if (stat(output.path.c_str(), &out) != 0 || is_device_or_pipe(output.path)) return;
  for (const auto& [name, path] : inputs)
    if (stat(path.c_str(), &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
      raise<ConfigError>("{} {}: expected a place of its own, found the input {} {}", output.name,
                         output.path, name, path);
}

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

void rename_path(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0)
    raise<FileError>("{}: cannot rename to {}: {}", from, to, reason(errno));
}

void remove_path(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) raise<FileError>("{}: cannot remove: {}", path, error.message());
}

namespace {
// The new one is in place already: what cannot be removed is no reason to call that a failure.
void remove_older(const std::string& path) {
  try {
    remove_path(path);
  } catch (const FileError& error) {
    log::warning("{} (an older version, replaced)", error.what());
  }
}
}  // namespace

void replace_path_by_renames(const std::string& temporary, const std::string& path) {
  const std::string old = path + kOld;
  if (exists(path)) {
    remove_path(old);  // of a save that was killed between its last two steps
    rename_path(path, old);
    try {
      rename_path(temporary, path);
    } catch (const FileError&) {
      rename_path(old, path);
      throw;
    }
  } else {
    rename_path(temporary, path);
  }
  sync_directory(parent_directory(path));
  remove_older(old);
}

void replace_path(const std::string& temporary, const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return replace_path_by_renames(temporary, path);
  if (!S_ISDIR(status.st_mode)) {  // rename() replaces anything but a directory
    rename_path(temporary, path);
    return sync_directory(parent_directory(path));
  }
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno == EINVAL || errno == ENOSYS) return replace_path_by_renames(temporary, path);
    raise<FileError>("{}: cannot exchange with {}: {}", temporary, path, reason(errno));
  }
  sync_directory(parent_directory(path));
  remove_older(temporary);
  remove_older(path + kOld);
}

std::string find_replaced(const std::string& path) {
  if (!exists(path) && exists(path + kOld)) return path + kOld;
  return path;
}

}  // namespace hlite
