// The error family. Messages say where, what was expected and what was found; main() prints them
// once and exits with the error's code. No function catches only to log and rethrow.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace hlite {

// Exit codes of every program.
enum ExitCode : int {
  kExitDone = 0,
  kExitInternal = 1,  // a bug of ours, or something the other codes do not cover
  kExitConfig = 2,    // command line or config
  kExitData = 3,      // data, checkpoint or other file
  kExitDevice = 4,    // device or communication
  kExitInterrupted = 5,
};

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  [[nodiscard]] virtual int exit_code() const { return kExitInternal; }
};

// Wrong usage of a program or a wrong config; the message starts with file, line and JSON path.
class ConfigError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const override { return kExitConfig; }
};

// Unusable or unwritable data: the message names file and offset, sample or tensor.
class DataError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const override { return kExitData; }
};

// A signal asked to stop (core/interrupt.h).
class InterruptedError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const override { return kExitInterrupted; }
};

// The operating system refused a file operation: path, operation and reason.
class FileError : public DataError {
 public:
  using DataError::DataError;
};

class DeviceError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const override { return kExitDevice; }
};

// A rank waited for others for longer than it may (comm/wait_limit.h).
class TimeoutError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

template <typename E = Error, typename... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

// The message of an error, and the exit code of the program.
struct Failure {
  std::string message;
  int exit_code;
};
// Describes the exception at hand: also what the standard library throws where the system refuses
// memory, threads or a look into a folder. REQUIRES a handler around it.
Failure current_failure();

// Throws Error("<place>: <condition> failed: <message>") for HLITE_CHECK. Out of line, as every op
// has checks.
[[noreturn]] void fail_check(const char* place, const char* condition, fmt::string_view format,
                             fmt::format_args args);
template <typename... Args>
[[noreturn]] void fail_check_with(const char* place, const char* condition,
                                  fmt::format_string<Args...> format, const Args&... args) {
  fail_check(place, condition, format, fmt::make_format_args(args...));
}

}  // namespace hlite

#define HLITE_TEXT_OF(x) #x
#define HLITE_TEXT(x) HLITE_TEXT_OF(x)
// Checks a condition that holds unless the program itself is wrong. Example:
//   HLITE_CHECK(out.dim(0) == x.dim(0), "x {}, out {}", x.shape(), out.shape());
#define HLITE_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition))                                                                       \
      ::hlite::fail_check_with(__FILE__ ":" HLITE_TEXT(__LINE__), #condition, __VA_ARGS__); \
  } while (0)
