// What is logged while it lives.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

class LogCapture {
 public:
  LogCapture() : old_(dup(STDERR_FILENO)) {
    std::fflush(stderr);
    const int fd = open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() {
    std::fflush(stderr);
    dup2(old_, STDERR_FILENO);
    close(old_);
  }
  [[nodiscard]] std::string text() const {
    std::fflush(stderr);
    return read_text(file_);
  }
  [[nodiscard]] int count(const std::string& part) const {
    const std::string all = text();
    int n = 0;
    for (size_t at = 0; (at = all.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  }

 private:
  TemporaryDirectory dir_;
  std::string file_ = dir_ / "log";
  int old_;
};

}  // namespace hlite::test
