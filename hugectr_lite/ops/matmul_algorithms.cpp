#include "hugectr_lite/ops/matmul_algorithms.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace hlite::ops {
namespace {

constexpr const char* kTitle = "hugectr_lite matmul algorithms 3";
constexpr const char* kEarlierTitles[] = {"hugectr_lite matmul algorithms 1",
                                          "hugectr_lite matmul algorithms 2"};
constexpr const char* kVerdicts[] = {"take", "slower", "differs", "varies"};  // MatmulVerdict

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

// FNV-1a: finds a damaged line, no more.
uint64_t checksum(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string line_of(const std::string& key, const MatmulChoice& choice) {
  std::string line = key + " " + kVerdicts[static_cast<size_t>(choice.verdict)] + " ";
  for (size_t i = 0; i < choice.algorithm.size(); ++i)
    line += (i > 0 ? "," : "") + hexadecimal(choice.algorithm[i]);
  return line + " " + hexadecimal(checksum(line));
}

// Takes a line apart; only what line_of() would write again is one.
bool parse(const std::string& line, std::string* key, MatmulChoice* choice) {
  std::istringstream words(line);
  std::string verdict, numbers;
  if (!(words >> *key >> verdict >> numbers)) return false;
  const auto known = std::find(std::begin(kVerdicts), std::end(kVerdicts), verdict);
  if (known == std::end(kVerdicts)) return false;
  choice->verdict = static_cast<MatmulVerdict>(known - std::begin(kVerdicts));
  std::istringstream hex(numbers);
  char comma = ',';
  for (uint64_t& number : choice->algorithm)
    if (comma != ',' || !(hex >> std::hex >> number) || (!(hex >> comma) && !hex.eof()))
      return false;
  return line == line_of(*key, *choice);
}

// The consequence of a file that cannot be written, as matmul.cuh promises.
constexpr const char* kConsequence =
    "; fast algorithms cannot be remembered, so cuBLASLt's first choice is taken";

std::string reason() { return std::strerror(errno); }

}  // namespace

LockedAlgorithms::LockedAlgorithms(const std::string& path, const Warn& warn)
    : path_(path), warn_(warn) {
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string lock = path + ".lock";
  lock_ = open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    warn_(lock + ": cannot open: " + (error ? error.message() : reason()) + kConsequence);
  } else {
    // A file system without locks leaves a race that costs entries, not correctness.
    while (flock(lock_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  read();
}

LockedAlgorithms::~LockedAlgorithms() {
  if (lock_ >= 0) close(lock_);  // lets go of the lock
}

void LockedAlgorithms::read() {
  std::ifstream file(path_);
  if (!file) return;
  std::string line, key;
  bool fits = std::getline(file, line) && line == kTitle;
  if (std::find(std::begin(kEarlierTitles), std::end(kEarlierTitles), line) !=
      std::end(kEarlierTitles)) {
    warn_(path_ + ": written by an earlier version, which knew less of each algorithm; they are " +
          "searched anew");
    return;
  }
  int number = 1;
  for (; fits && std::getline(file, line); ++number) {
    MatmulChoice choice;
    fits = parse(line, &key, &choice);
    if (fits) entries_[key] = choice;
  }
  if (fits) return;
  entries_.clear();
  warn_(path_ + ":" + std::to_string(number) +
        ": not a line that this program writes; the file is not used");
}

const MatmulChoice* LockedAlgorithms::find(const std::string& key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second;
}

bool LockedAlgorithms::put(const std::string& key, const MatmulChoice& choice) {
  entries_[key] = choice;
  std::string text = std::string(kTitle) + "\n";
  for (const auto& [name, value] : entries_) text += line_of(name, value) + "\n";

  // As replace_file() does, of which the plug-in has nothing. The process's number: where locks do
  // nothing, two writers still do not share a file.
  const std::string temporary = path_ + ".tmp." + std::to_string(getpid());
  (void)std::remove(temporary.c_str());  // of an earlier process of that number
  std::FILE* const file = std::fopen(temporary.c_str(), "wxe");  // a link is not followed
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
                       std::fflush(file) == 0;
  if (file) std::fclose(file);
  if (written && std::rename(temporary.c_str(), path_.c_str()) == 0) return true;
  warn_(path_ + ": cannot write: " + reason() + kConsequence);
  (void)std::remove(temporary.c_str());
  return false;
}

}  // namespace hlite::ops
