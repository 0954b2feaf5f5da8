#include "hugectr_lite/core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/memory_bytes.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using test::check_contains;
using test::MemoryBytes;
using test::message_of;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {
std::vector<std::byte> pattern(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// What happens next has other times than what has happened to the file.
void make_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  WriteFile file(path);
  file.write(bytes);
  file.close();
}
}  // namespace

TEST_CASE("what was written is read, at any offset and size") {
  const TemporaryDirectory dir;
  // The last is more than one system call moves.
  for (const size_t n : {size_t{0}, size_t{1}, size_t{4099}, (size_t{64} << 20) + 3}) {
    const auto bytes = pattern(n);
    write_file(dir / "f", bytes);
    const ReadFile file(dir / "f");
    REQUIRE(file.size() == static_cast<int64_t>(n));
    std::vector<std::byte> back(n);
    file.read(0, back);
    REQUIRE(back == bytes);
    if (n < 3) continue;
    std::vector<std::byte> part(n - 2);
    file.read(1, part);
    REQUIRE(std::equal(part.begin(), part.end(), bytes.begin() + 1));
  }
}

TEST_CASE("reading past the end names file, bytes and offset") {
  const TemporaryDirectory dir;
  write_file(dir / "f", pattern(100));
  const ReadFile file(dir / "f");
  std::vector<std::byte> out(64);
  const std::string path = dir / "f";
  CHECK(message_of<FileError>([&] { file.read(50, out); }) ==
        path +
            ": cannot read 64 bytes at offset 50: the file ends at 100 (it had 100 bytes when "
            "it was opened)");
  // Truncated under the reader's feet.
  fs::resize_file(path, 10);
  check_contains(message_of<FileError>([&] { file.read(0, out); }),
                 {path, "64 bytes at offset 0", "ends at 10"});
  check_contains(message_of<FileError>([&] { file.read(50, out); }),
                 {path, "64 bytes at offset 50", "ends at 10"});

  const auto bytes = pattern(10);
  const MemoryBytes memory("memory", bytes);
  CHECK(message_of<FileError>([&] { memory.read(5, out); }) ==
        "memory: cannot read 64 bytes at offset 5: the file ends at 10");
  CHECK(message_of<DataError>([&] { read_text(memory, 9); }) ==
        "memory: expected at most 9 bytes, found 10");
  CHECK(read_text(memory, 10).size() == 10);
}

TEST_CASE("an open file knows that it was written to or cut, whatever its time of writing says") {
  const TemporaryDirectory dir;
  const std::string path = dir / "f";
  const auto changed_by = [&](const std::function<void()>& change) {
    write_file(path, pattern(100));
    make_old(path);
    const ReadFile file(path);
    file.expect_unchanged();
    change();
    try {
      file.expect_unchanged();
      return false;
    } catch (const FileError& error) {
      CHECK(error.what() == path + ": the file has changed since it was opened");
      return true;
    }
  };
  const auto overwrite = [&] {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(50) << "x";
  };
  CHECK(changed_by(overwrite));
  CHECK(changed_by([&] {
    const auto written = fs::last_write_time(path);
    overwrite();
    fs::last_write_time(path, written);
  }));
  CHECK(changed_by([&] { fs::resize_file(path, 99); }));
  CHECK(changed_by([&] { fs::resize_file(path, 101); }));
  CHECK(changed_by([&] { test::write_text(path, std::string(100, 'x')); }));
  // Another file of that name, no name, a second one.
  CHECK_FALSE(changed_by([&] {
    test::write_text(dir / "other", "x");
    fs::rename(dir / "other", path);
  }));
  CHECK_FALSE(changed_by([&] { fs::remove(path); }));
  CHECK_FALSE(changed_by([&] { fs::create_hard_link(path, dir / "link"); }));
}

TEST_CASE("a pipe is no file, and is not opened to find out") {
  const TemporaryDirectory dir;
  const std::string path = dir / "fifo";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  // No writer: opening it would wait.
  CHECK(message_of<FileError>([&] { const ReadFile file(path); }) ==
        path + ": expected a file, found a pipe, which cannot be read twice");
}

TEST_CASE("a file is handed over in pieces, in order") {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{5} << 19) + 3}) {
    const auto bytes = pattern(size);
    std::vector<std::byte> read;
    size_t largest = 0;
    read_pieces(MemoryBytes("memory", bytes), [&](auto piece) {
      largest = std::max(largest, piece.size());
      read.insert(read.end(), piece.begin(), piece.end());
    });
    CHECK(read == bytes);
    CHECK(largest == std::min(size, size_t{1} << 20));
  }
}

TEST_CASE("a path in a file is looked up in that file's folder, then in the working directory") {
  const TemporaryDirectory dir;
  test::write_text(dir / "here", "1");
  CHECK(resolve_path(dir.path(), "here") == dir / "here");
  CHECK(resolve_path(dir / "inner", "../here") == dir / "here");
  CHECK(resolve_path(dir.path(), "nowhere") == dir / "nowhere");
  CHECK(resolve_path(dir.path(), "/etc") == "/etc");
  CHECK(resolve_path("", "nowhere") == "nowhere");
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  CHECK(resolve_path("/none", "here") == "here");
  // An output is always next to the file that names it.
  CHECK(resolve_path("/none", "here", PathUse::kOutput) == "/none/here");
  CHECK(resolve_path("/none", "/etc/x", PathUse::kOutput) == "/etc/x");
  fs::current_path(before);
}

TEST_CASE("an input of that name in both places is ambiguous, unless it is one file") {
  const TemporaryDirectory dir;
  fs::create_directory(dir / "config");
  fs::create_directory(dir / "work");
  const fs::path before = fs::current_path();
  fs::current_path(dir / "work");
  test::write_text(dir / "work/a", "1");
  CHECK(!is_ambiguous(dir / "config", "a"));
  test::write_text(dir / "config/a", "1");
  CHECK(is_ambiguous(dir / "config", "a"));
  CHECK(!is_ambiguous(dir / "config", dir / "config/a"));
  CHECK(!is_ambiguous(dir / "work", "a"));
  CHECK(!is_ambiguous("", "a"));
  CHECK(!is_ambiguous(dir / "config", ""));
  fs::current_path(before);
}

TEST_CASE("an output is no input, by whatever name, but a device may be both") {
  const TemporaryDirectory dir;
  test::write_text(dir / "in", "1");
  fs::create_directory(dir / "folder");
  fs::create_symlink("in", dir / "link");
  fs::create_symlink(dir / "none", dir / "dangling");
  fs::create_hard_link(dir / "in", dir / "twin");
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  const std::vector<NamedPath> inputs = {{"--config", dir / "none"}, {"--init", ""},
                                         {"--input", dir / "in"},    {"source", dir / "folder/"},
                                         {"--log", "/dev/null"},     {"--pipe", dir / "fifo"}};
  const auto problem = [&](const std::string& path) {
    return message_of<ConfigError>([&] { expect_no_input({"--out", path}, inputs); });
  };
  for (const char* name : {"in", "./in", "folder/../in", "link", "twin"}) {
    INFO(name);
    CHECK(problem(dir / name) ==
          fmt::format("--out {}: expected a place of its own, found the input "
                      "--input {}",
                      dir / name, dir / "in"));
  }
  test::check_contains(problem(dir / "folder"), {"found the input source "});
  for (const std::string& path :
       {dir / "new", dir / "dangling", dir / "folder/new", dir / "fifo", std::string("/dev/null")})
    CHECK_NOTHROW(expect_no_input({"--out", path}, inputs));
  CHECK(is_device_or_pipe("/dev/null"));
  CHECK(is_device_or_pipe(dir / "fifo"));
  for (const char* name : {"in", "folder", "link", "none", "dangling"})
    CHECK_FALSE(is_device_or_pipe(dir / name));
}

TEST_CASE("what cannot be opened is an error with the reason") {
  const TemporaryDirectory dir;
  CHECK(message_of<FileError>([&] { ReadFile(dir / "none"); }) ==
        (dir / "none") + ": cannot open: No such file or directory");
  check_contains(message_of<FileError>([&] { ReadFile(dir.path()); }), {"it is a directory"});
  check_contains(message_of<FileError>([&] { WriteFile(dir / "none/f"); }),
                 {"none/f: cannot create: No such file or directory"});
  check_contains(message_of<FileError>([&] { sync_directory(dir / "none"); }), {"none"});
}

TEST_CASE("large aligned writes and small ones in turn give the bytes in order") {
  const TemporaryDirectory dir;
  const HostMemory memory(6 << 20, "test");
  const auto bytes = pattern(6 << 20);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  const std::span<const std::byte> all(memory.data(), bytes.size());
  constexpr size_t kMax = WriteFile::kDirectBytes;
  for (const size_t odd : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}}) {
    // Aligned and large; large with a tail; then at an offset that is aligned, or not.
    const std::vector<size_t> parts = {kMax, kMax + odd, 4096 - odd % 4096, kMax, 3};
    WriteFile file(dir / "f");
    size_t at = 0;
    for (const size_t part : parts) {
      file.write(all.subspan(at, part));
      at += part;
    }
    file.close();
    const ReadFile written(dir / "f");
    REQUIRE(written.size() == static_cast<int64_t>(at));
    std::vector<std::byte> got(at);
    written.read(0, got);
    CHECK(std::equal(got.begin(), got.end(), bytes.begin()));
  }
}

TEST_CASE("a full disk is an error at the write") {
  WriteFile file("/dev/full");
  CHECK(message_of<FileError>([&] { file.write(pattern(5)); }) ==
        "/dev/full: cannot write 5 bytes at offset 0: No space left on device");
}

TEST_CASE("a limit on the size of files is an error at the right offset") {
  const TemporaryDirectory dir;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    int status = 1;
    try {
      WriteFile file(dir / "f");
      file.write(pattern(600));
      file.write(pattern(600));
    } catch (const FileError& error) {
      const std::string want = (dir / "f") + ": cannot write 200 bytes at offset 1000: ";
      status = std::string(error.what()).starts_with(want) ? 0 : 2;
    }
    _exit(status);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("writes that are cut short or interrupted go on", "[threads]") {
  // A pipe takes 64 KiB at a time, and a timer interrupts the writer while it waits for the slow
  // reader.
  const TemporaryDirectory dir;
  const std::string path = dir / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const auto bytes = pattern(1'000'003);

  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, nullptr);  // inherited by the reader
  std::vector<std::byte> got;
  std::thread reader([&] {
    const int fd = open(path.c_str(), O_RDONLY);
    std::vector<std::byte> piece(30'011);
    for (ssize_t n; (n = read(fd, piece.data(), piece.size())) > 0;) {
      got.insert(got.end(), piece.begin(), piece.begin() + n);
      usleep(300);
    }
    close(fd);
  });
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);

  static volatile sig_atomic_t interrupts = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { interrupts = interrupts + 1; };  // without SA_RESTART
  sigaction(SIGALRM, &action, &before);
  const itimerval every{{0, 500}, {0, 500}}, off{};
  setitimer(ITIMER_REAL, &every, nullptr);
  {
    WriteFile file(path);
    file.write(bytes);
  }
  setitimer(ITIMER_REAL, &off, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  reader.join();
  CHECK(interrupts > 0);
  CHECK(got == bytes);
}

TEST_CASE("a file replaces another") {
  const TemporaryDirectory dir;
  for (const char* text : {"first", "second"}) {
    test::write_text(dir / "f.tmp", text);
    replace_path(dir / "f.tmp", dir / "f");
    CHECK(test::read_text(dir / "f") == text);
    CHECK(dir.entries() == 1);
  }
}

TEST_CASE("a directory replaces another, by exchange and by renames") {
  for (const auto& replace : {replace_path, replace_path_by_renames}) {
    const TemporaryDirectory dir;
    for (const char* text : {"first", "second", "third"}) {
      fs::create_directory(dir / "d.tmp");
      test::write_text(dir / "d.tmp/f", text);
      if (std::string(text) == "third") test::write_text(dir / "d/only in the older", "");
      replace(dir / "d.tmp", dir / "d");
      CHECK(test::read_text(dir / "d/f") == text);
      CHECK_FALSE(fs::exists(dir / "d/only in the older"));
      CHECK(dir.entries() == 1);
    }
  }
}

TEST_CASE("every state between two renames can be gone on from") {
  for (const auto& replace : {replace_path, replace_path_by_renames}) {
    const TemporaryDirectory dir;
    const std::string d = dir / "d";
    fs::create_directory(dir / "new");
    test::write_text(dir / "new/f", "new");
    // Killed after the first rename: the older one is what a loader finds.
    fs::create_directory(d + ".tmp.old");
    test::write_text(d + ".tmp.old/f", "old");
    CHECK(test::read_text(find_replaced(d) + "/f") == "old");
    replace(dir / "new", d);
    CHECK(find_replaced(d) == d);
    CHECK(test::read_text(d + "/f") == "new");
    CHECK(dir.entries() == 1);
    // Killed before the older one was removed.
    fs::create_directory(d + ".tmp.old");
    CHECK(find_replaced(d) == d);
    fs::create_directory(dir / "newer");
    test::write_text(dir / "newer/f", "newer");
    replace(dir / "newer", d);
    CHECK(test::read_text(d + "/f") == "newer");
    CHECK(dir.entries() == 1);
  }
  CHECK(find_replaced("/nowhere/d") == "/nowhere/d");
}

TEST_CASE("a replacement that is not there leaves the older one") {
  for (const auto& replace : {replace_path, replace_path_by_renames}) {
    const TemporaryDirectory dir;
    fs::create_directory(dir / "d");
    test::write_text(dir / "d/f", "old");
    check_contains(message_of<FileError>([&] { replace(dir / "none", dir / "d"); }),
                   {"none", "No such file or directory"});
    CHECK(test::read_text(dir / "d/f") == "old");
    CHECK(dir.entries() == 1);
  }
}

TEST_CASE("parents and removal") {
  CHECK(parent_directory("a/b") == "a");
  CHECK(parent_directory("b") == ".");
  CHECK(parent_directory("/b") == "/");
  const TemporaryDirectory dir;
  fs::create_directories(dir / "a/b");
  test::write_text(dir / "a/b/f", "x");
  remove_path(dir / "a");
  CHECK(dir.entries() == 0);
  CHECK_NOTHROW(remove_path(dir / "a"));
}
