#include "hugectr_lite/core/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"

namespace hlite {
namespace {

// Descriptors 0 to 2 are open from here on: a checkpoint must not get the number of a standard
// error that the caller closed, or messages would be written into it.
void occupy_standard_descriptors() {
  int fd;
  do fd = open("/dev/null", O_RDONLY);  // what is written there fails, and is noticed
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty() && option->get_items_expected_max() > 0)
        throw CLI::ValidationError(option->get_name(), "expected a value, found an empty one");
}

// CLI11 takes the option after one that lacks its value for that value.
void refuse_missing_values(const CLI::App& app, int argc, char** argv) {
  const auto option_named = [&](std::string_view word) -> const CLI::Option* {
    return word.size() > 1 && word[0] == '-' ? app.get_option_no_throw(std::string(word)) : nullptr;
  };
  for (int i = 1; i + 1 < argc; ++i)
    if (const CLI::Option* option = option_named(argv[i]);
        option != nullptr && option->get_items_expected_min() > 0 && option_named(argv[i + 1]))
      throw CLI::ValidationError(argv[i],
                                 fmt::format("expected a value, found the option {}", argv[i + 1]));
}

// "Could not convert: --zipf = x" in the words of all other messages.
std::string conversion_text(std::string text) {
  text.erase(0, text.find(": ") + 2);
  const size_t equals = text.find(" = ");
  return fmt::format("{}: expected a number, found \"{}\"", text.substr(0, equals),
                     text.substr(std::min(equals, text.size() - 3) + 3));
}

// Required options are looked at first, but the cause that one is missing may be a slip in its
// name.
std::string usage_text(const CLI::App* app, const CLI::Error& error) {
  const std::string what = dynamic_cast<const CLI::ConversionError*>(&error) != nullptr
                               ? conversion_text(error.what())
                               : error.what();
  std::string text = fmt::format("{}: {}\n", app->get_name(), what);
  if (const auto unknown = app->remaining();
      !unknown.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)
    text += fmt::format("{}: not expected: {}\n", app->get_name(), fmt::join(unknown, " "));
  return text + "Run with --help for more information.\n";
}

void check_standard_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    raise<FileError>("standard output: cannot write all: {}", std::strerror(errno));
}

int complain(const CLI::App& app, const Failure& failure) {
  std::fflush(stdout);
  // Not fmt::print, which throws where standard error cannot be written.
  std::fputs(fmt::format("{}: {}\n", app.get_name(), printable(failure.message)).c_str(), stderr);
  return failure.exit_code;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  occupy_standard_descriptors();
  // A file that may not grow (ulimit -f) is an error of writing, which says its name.
  std::signal(SIGXFSZ, SIG_IGN);
  app.failure_message(usage_text);
  try {
    try {
      refuse_missing_values(app, argc, argv);
      app.parse(argc, argv);
      refuse_empty_values(app);
    } catch (const CLI::ParseError& error) {
      if (app.exit(error) != 0) return kExitConfig;  // CLI11 has exit codes of its own
      check_standard_output();
      return kExitDone;
    }
    const int code = body();
    check_standard_output();
    return code;
  } catch (...) {
    return complain(app, current_failure());
  }
}

}  // namespace hlite
