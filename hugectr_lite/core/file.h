// Files through POSIX calls: every byte asked for arrives, or an error says which did not.
//
// ByteSource and ByteSink are the interfaces that readers and writers of formats work on, so that
// they can be tested on bytes in memory and on files that fail at a chosen byte.
//
// Replacing a file or directory so that a crash at any moment leaves the old or the new one:
//   1. write everything under a temporary name in the same folder, fsync files and directory;
//   2. replace_path(): a file by rename(); a directory by renameat2(RENAME_EXCHANGE) where kernel
//      and file system know it, else
//        rename final -> final.tmp.old,  rename temporary -> final,  remove final.tmp.old;
//   3. fsync the parent.
// Between the two renames only final.tmp.old exists: find_replaced() is what a loader opens.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace hlite {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The name of the file in messages: its path.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual int64_t size() const = 0;
  // Fills `out` with the bytes from `offset` on. Throws FileError when they cannot be had:
  // "<path>: cannot read 4096 bytes at offset 123: <reason>".
  virtual void read(int64_t offset, std::span<std::byte> out) const = 0;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  // Appends. Throws FileError "<path>: cannot write 4096 bytes at offset 123: <reason>".
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Makes everything written durable and closes. Nothing is promised without it.
  virtual void close() = 0;
};

// An open file descriptor with one owner.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// A regular file (or what behaves like one), opened for reading at any offset. Safe to read from
// several threads.
class ReadFile final : public ByteSource {
 public:
  // Throws FileError "<path>: cannot open: <reason>", also for a directory; for a pipe, which is
  // not opened, as its writer would take that for a reader.
  explicit ReadFile(std::string path);
  [[nodiscard]] const std::string& name() const override { return path_; }
  // Bytes when it was opened.
  [[nodiscard]] int64_t size() const override { return size_; }
  void read(int64_t offset, std::span<std::byte> out) const override;
  // Hints to the kernel that [offset, offset + bytes) is read soon. Never fails.
  void will_need(int64_t offset, int64_t bytes) const;
  // Throws FileError "<path>: the file has changed since it was opened" where it was written to or
  // cut short, so that what was read before belongs together only if this returns afterwards. What
  // takes its name (rename) or removes it changes nothing. Takes about 0.2 us.
  void expect_unchanged() const;
  [[nodiscard]] int descriptor() const { return fd_.get(); }

 private:
  std::string path_;
  FileDescriptor fd_;
  struct stat opened_ {};  // what it was when it was opened
  int64_t size_ = 0;
};

// A new (or emptied) file that is written from front to back.
//
// Writes of kDirectBytes and more, from memory and at an offset that are multiples of kDirectAlign,
// pass the page cache (O_DIRECT) where the file system can: large results are not read back at
// once, and filling fresh pages for them costs more than the disk does.
class WriteFile final : public ByteSink {
 public:
  static constexpr size_t kDirectAlign = 4096, kDirectBytes = size_t{1} << 20;
  // `kept`: bytes that are there already, and stay; what follows them is cut off. The next write()
  // begins at the last multiple of kDirectAlign in them. Throws FileError where there are fewer.
  explicit WriteFile(std::string path, int64_t kept = 0);
  [[nodiscard]] const std::string& name() const override { return path_; }
  void write(std::span<const std::byte> bytes) override;
  // Writes the same bytes without appending them: the next write() begins where this one did.
  void write_ahead(std::span<const std::byte> bytes);
  // fsync and close.
  void close() override;

 private:
  // Switches O_DIRECT; false when the file system refuses it.
  bool set_direct(bool on);
  std::string path_;
  FileDescriptor fd_;
  bool direct_ = false, refuses_direct_ = false;
  int64_t offset_ = 0;
};

// Hands over all bytes of a file in turn, a piece of at most 1 MiB at a time.
void read_pieces(const ByteSource& file,
                 const std::function<void(std::span<const std::byte> piece)>& use);
// The whole of a file that is known to be small. Throws DataError when it has more than `most`.
std::string read_text(const ByteSource& file, int64_t most);

// fsync of a directory: makes the names in it durable.
void sync_directory(const std::string& path);
// fdatasync of a file that may be gone by then.
void sync_file(const std::string& path);
// The rule for paths that a file names, such as a config: a relative one starts at the folder of
// that file, `directory`. An input that is not there is taken from the working directory, if it is
// there; an output always goes to the folder.
enum class PathUse { kInput, kOutput };
std::string resolve_path(const std::string& directory, const std::string& path,
                         PathUse use = PathUse::kInput);
// Returns true if both places have an input of that name, as two different files.
bool is_ambiguous(const std::string& directory, const std::string& path);
// A place that an option or a key of a config names: {"--metrics", "out.jsonl"}.
struct NamedPath {
  std::string name, path;
};
// Throws ConfigError if `output` is the same file or directory as an input, by whatever name, link
// or spelling of a path. Devices and pipes may be both.
void expect_no_input(const NamedPath& output, std::span<const NamedPath> inputs);
// Returns true if there is a device, pipe or socket of that name.
bool is_device_or_pipe(const std::string& path);
// Throws FileError for a pipe or socket, without opening it: who needs a file reads it in any
// order, or twice.
void expect_no_pipe(const std::string& path);
// The directory that holds `path`: "a" for "a/b", "." for "b".
std::string parent_directory(const std::string& path);
// rename(2). Throws FileError. Nothing is made durable.
void rename_path(const std::string& from, const std::string& to);
// Removes a file or a whole directory; nothing happens when there is none. Throws FileError.
void remove_path(const std::string& path);

// Puts `temporary` in the place of `path`, replacing what is there, and fsyncs the parent; see
// above. Both are of one kind (file or directory) and in one directory. Throws FileError; then
// `path` is what it was (or the new one, when only the fsync of the parent failed).
void replace_path(const std::string& temporary, const std::string& path);
// The same by plain renames, for file systems without RENAME_EXCHANGE.
void replace_path_by_renames(const std::string& temporary, const std::string& path);
// `path` if it exists, else "<path>.tmp.old" if that exists, else `path`.
std::string find_replaced(const std::string& path);

}  // namespace hlite
