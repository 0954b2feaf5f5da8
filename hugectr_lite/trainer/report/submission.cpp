#include "hugectr_lite/trainer/report/submission.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

void check_one_of(const std::string& argument, const std::string& value,
                  std::initializer_list<std::string_view> names, const char* expected) {
  if (std::find(names.begin(), names.end(), value) == names.end())
    raise<ConfigError>("--submission {}: expected {}, found \"{}\"", argument, expected, value);
}

}  // namespace

Submission parse_submission(const std::vector<std::string>& arguments) {
  Submission submission;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (value.empty())
      raise<ConfigError>("--submission {}: expected KEY=VALUE, found no value", argument);
    if (key == "division") {
      check_one_of(argument, value, {"open", "closed"}, "open or closed");
      submission.closed = value == "closed";
    } else if (key == "cache_clear") {
      check_one_of(argument, value, {"true", "false"}, "true or false");
      submission.cache_clear = value == "true";
    } else if (key == "status") {
      check_one_of(argument, value, {"onprem", "cloud", "preview", "research"},
                   "onprem, cloud, preview or research");
      submission.status = value;
    } else if (key == "org") {
      submission.org = value;
    } else if (key == "platform") {
      submission.platform = value;
    } else {
      raise<ConfigError>(
          "--submission {}: expected division, org, platform, status or cache_clear, found {}",
          argument, key);
    }
  }
  return submission;
}

}  // namespace hlite::trainer
