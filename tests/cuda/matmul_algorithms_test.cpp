// The file that remembers algorithms: what is found in it, and what becomes of a bad one.
#include "hugectr_lite/ops/matmul_algorithms.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "hugectr_lite/core/matmul_context.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

using ops::LockedAlgorithms;
using ops::MatmulChoice;
using ops::MatmulVerdict;

constexpr MatmulChoice kOne = {{1, 2, 3, 4, 5, 6, 7, 0xffffffffffffffff}};
constexpr MatmulChoice kTwo = {{8}, MatmulVerdict::kVaries};

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// The file, and what it warned of.
struct File {
  explicit File(const std::string& path)
      : warn([this](const std::string& text) { said += text + "\n"; }), file(path, warn) {}
  std::string said;
  LockedAlgorithms::Warn warn;
  LockedAlgorithms file;
};

void put(const std::string& path, const std::string& key, const MatmulChoice& choice) {
  File file(path);
  CHECK(file.file.put(key, choice));
  CHECK(file.said.empty());
}

TEST_CASE("algorithms are found again, and folders made") {
  const TemporaryDirectory directory;
  const std::string path = directory / "new/folder/algorithms.txt";
  put(path, "GPU/1/2", kOne);
  put(path, "GPU/1/3", kTwo);
  put(path, "GPU/1/2", kTwo);
  put(path, "GPU/1/2", kOne);
  const File file(path);
  CHECK(file.said.empty());
  CHECK(file.file.writable());
  REQUIRE(file.file.find("GPU/1/2"));
  CHECK(*file.file.find("GPU/1/2") == kOne);
  REQUIRE(file.file.find("GPU/1/3"));
  CHECK(*file.file.find("GPU/1/3") == kTwo);
  CHECK(file.file.find("GPU/1/4") == nullptr);
  CHECK(std::filesystem::exists(path + ".lock"));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp." + std::to_string(getpid())));
}

TEST_CASE("every verdict is found again") {
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  constexpr MatmulVerdict kAll[] = {MatmulVerdict::kTake, MatmulVerdict::kSlower,
                                    MatmulVerdict::kDiffers, MatmulVerdict::kVaries};
  for (const MatmulVerdict verdict : kAll)
    put(path, std::to_string(static_cast<int>(verdict)), {{7}, verdict});
  const File file(path);
  CHECK(file.said.empty());
  for (const MatmulVerdict verdict : kAll) {
    const MatmulChoice* found = file.file.find(std::to_string(static_cast<int>(verdict)));
    REQUIRE(found);
    CHECK(*found == MatmulChoice{{7}, verdict});
  }
  check_contains(read_text(path),
                 {"0 take 0000000000000007,", "1 slower ", "2 differs ", "3 varies "});
}

TEST_CASE("a file of an earlier version is said once and written anew") {
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  write(path, "hugectr_lite matmul algorithms 1\na 0,0,0,0,0,0,0,1 1234\n");
  {
    File file(path);
    CHECK(std::count(file.said.begin(), file.said.end(), '\n') == 1);
    check_contains(file.said, {path + ": written by an earlier version", "searched anew"});
    CHECK(file.file.find("a") == nullptr);
    CHECK(file.file.put("b", kOne));
  }
  const File again(path);
  CHECK(again.said.empty());
  CHECK(again.file.find("a") == nullptr);
  CHECK(again.file.find("b") != nullptr);
}

TEST_CASE("a file with a bad line counts as absent and is written anew") {
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  put(path, "a", kOne);
  const std::string good = read_text(path);
  const std::string line = good.substr(good.find('\n') + 1);
  std::string damaged = good;
  damaged[good.find("ffff") + 1] = 'e';

  const std::pair<std::string, const char*> cases[] = {
      {"", ":1:"},
      {"another program's file\n", ":1:"},
      {damaged, ":2:"},
      {good + "half a li", ":3:"},
      {good.substr(0, good.size() - 4), ":2:"},
      {good + line.substr(0, line.find(' ')) + "\n", ":3:"},
      {good + line.substr(1), ":3:"},
      {std::string(good).replace(good.find(" take "), 6, " keep "), ":2:"},
      {good + std::string(100, '\0'), ":3:"}};
  for (const auto& [text, where] : cases) {
    write(path, text);
    INFO(text);
    {
      File file(path);
      check_contains(file.said, {path + where, "not a line that this program writes"});
      CHECK(file.file.find("a") == nullptr);
      CHECK(file.file.put("b", kTwo));
    }
    const File again(path);
    CHECK(again.said.empty());
    CHECK(again.file.find("a") == nullptr);
    CHECK(again.file.find("b") != nullptr);
  }
}

TEST_CASE("a folder that cannot be written is said, not thrown") {
  const TemporaryDirectory directory;
  write(directory / "file", "");
  {
    File file(directory / "file/algorithms.txt");  // below a file: root, too, cannot make that
    check_contains(file.said, {"file/algorithms.txt.lock: cannot open"});
    CHECK_FALSE(file.file.writable());
    CHECK(file.file.find("a") == nullptr);
    CHECK_FALSE(file.file.put("a", kOne));
  }
  // The name is taken by a folder with something in it: the new file cannot replace it.
  std::filesystem::create_directories(directory / "taken/full");
  File file(directory / "taken");
  CHECK(file.file.writable());
  CHECK_FALSE(file.file.put("a", kOne));
  check_contains(file.said, {"taken: cannot write"});
  CHECK_FALSE(std::filesystem::exists(directory / ("taken.tmp." + std::to_string(getpid()))));
}

TEST_CASE("threads that change the file at once lose nothing") {
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  constexpr int kThreads = 4, kEntries = 10;
  const LockedAlgorithms::Warn silent = [](const std::string&) {};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEntries; ++i)
        (void)LockedAlgorithms(path, silent)
            .put(std::to_string(thread) + "/" + std::to_string(i), kOne);
    });
  for (std::thread& thread : threads) thread.join();
  const LockedAlgorithms file(path, silent);
  for (int thread = 0; thread < kThreads; ++thread)
    for (int i = 0; i < kEntries; ++i)
      CHECK(file.find(std::to_string(thread) + "/" + std::to_string(i)) != nullptr);
}

// An environment variable with another value, or without one, while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) {
      had_ = true;
      before_ = before;
    }
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~Variable() {
    if (had_)
      setenv(name_, before_.c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

TEST_CASE("the algorithm file lies where the desktop's rules put caches") {
  const Variable home("HOME", "/home/user");
  {
    const Variable cache("XDG_CACHE_HOME", "/fast/cache");
    CHECK(default_algorithm_file() == "/fast/cache/hugectr_lite/matmul_algorithms.txt");
  }
  {
    const Variable relative("XDG_CACHE_HOME", "cache");  // to be ignored
    CHECK(default_algorithm_file() == "/home/user/.cache/hugectr_lite/matmul_algorithms.txt");
  }
  const Variable none("XDG_CACHE_HOME", nullptr);
  CHECK(default_algorithm_file() == "/home/user/.cache/hugectr_lite/matmul_algorithms.txt");
  const Variable no_home("HOME", nullptr);
  CHECK(default_algorithm_file().empty());
}

}  // namespace
}  // namespace hlite::test
