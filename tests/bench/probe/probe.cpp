#include "tests/bench/probe/probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"

namespace hlite::probe {

Record& Record::put(std::string_view key, const std::string& json) {
  json_ += fmt::format(R"({}"{}":{})", json_.size() > 1 ? "," : "", key, json);
  return *this;
}
Record& Record::add(std::string_view key, std::string_view text) {
  using nlohmann::json;
  return put(key, json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}
Record& Record::add(std::string_view key, double number) {
  return put(key, std::isfinite(number) ? fmt::format("{:.6g}", number) : "null");
}
Record& Record::add(std::string_view key, int64_t number) {
  return put(key, fmt::format("{}", number));
}
Record& Record::add(std::string_view key, bool yes) { return put(key, yes ? "true" : "false"); }

Statistics statistics_of(std::vector<double> numbers) {
  HLITE_CHECK(!numbers.empty(), "of nothing");
  std::sort(numbers.begin(), numbers.end());
  const size_t n = numbers.size(), last = n - 1;
  return {.least = numbers.front(),
          .median = n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2,
          .p90 = numbers[std::min(last, n * 9 / 10)],
          .most = numbers.back()};
}

int64_t count_different(const std::vector<uint64_t>& digests) {
  return std::count_if(digests.begin(), digests.end(),
                       [&](uint64_t digest) { return digest != digests.front(); });
}

std::vector<Product> products_of(int64_t batch) {
  struct Layer {
    const char* name;
    int64_t inputs, outputs;
    bool relu, masked;  // it has a ReLU; its input comes from one
  };
  constexpr Layer kLayers[] = {
      {"dlrm.z2", 1024, 1024, true, true},        {"dlrm.z1", 480, 1024, true, false},
      {"dlrm.z3", 1024, 512, true, true},         {"dlrm.z4", 512, 256, true, true},
      {"dlrm.bot2", 512, 256, true, true},        {"dlrm.bot3", 256, 128, true, true},
      {"dlrm.bot1", 16, 512, true, false},        {"dcnv2.z1", 3456, 1024, true, false},
      {"dcnv2.cross_u", 3456, 512, false, false}, {"dcnv2.cross_v", 512, 3456, false, false}};
  std::vector<Product> all;
  for (const Layer& layer : kLayers) {
    const std::string name = layer.name;
    const bool has_bias = name != "dcnv2.cross_u";
    Product forward{.name = name + ".fprop", .m = layer.outputs, .n = batch, .k = layer.inputs};
    forward.epilogues = {kPlain};
    if (layer.relu) forward.epilogues.insert(forward.epilogues.end(), {kReluBias, kReluAuxBias});
    all.push_back(forward);
    if (name != "dlrm.bot1") {  // nothing is below
      Product data{.name = name + ".bprop",
                   .turn_a = true,
                   .m = layer.inputs,
                   .n = batch,
                   .k = layer.outputs};
      data.epilogues = {kPlain};
      if (layer.masked) data.epilogues.insert(data.epilogues.end(), {kDreluOnly, kDreluBgrad});
      all.push_back(data);
    }
    Product weights{.name = name + ".wgrad",
                    .turn_b = true,
                    .m = layer.outputs,
                    .n = layer.inputs,
                    .k = batch,
                    .float_result = true};
    weights.epilogues = {kPlain};
    if (has_bias) weights.epilogues.push_back(kSumsOfA);
    all.push_back(weights);
  }
  return all;
}

std::vector<int> sm_targets(int multiprocessors) {
  std::vector<int> targets{0};
  for (const int target : {112, 96, 80, 64})
    if (target < multiprocessors) targets.push_back(target);
  return targets;
}

std::vector<std::string> parse_only(const std::string& text) {
  std::array<bool, kProbes> wanted{};
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (name.size() != 2 || name[0] != 'P' || name[1] < '1' || name[1] > '0' + kProbes)
      raise<ConfigError>("--only: expected some of P1 to P{}, as in P1,P3, found '{}'", kProbes,
                         text);
    wanted[static_cast<size_t>(name[1] - '1')] = true;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) names.push_back(fmt::format("P{}", i + 1));
  return names;
}

namespace {

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno != EINTR) ::_exit(kExitInternal);  // who reads is gone
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

// The child's end, in words; empty if it ended well.
std::string how(int status, bool overran, double seconds) {
  if (overran) return fmt::format("did not end within {:.1f} s", seconds);
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
}

// Before the last line, which may have been cut off, an error's words.
constexpr char kErrorMark = '!';

}  // namespace

Ended run_in_process(
    double limit,
    const std::function<void(const std::function<void(const std::string&)>& write)>& body) {
  int ends[2];
  if (::pipe(ends) != 0) raise("pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) raise("fork: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = kExitDone;
    try {
      body([&](const std::string& line) { write_all(ends[1], line); });
    } catch (...) {
      const Failure failure = current_failure();
      write_all(ends[1], kErrorMark + failure.message + '\n');
      code = failure.exit_code;
    }
    ::exit(code);  // a trace of it is written at the end
  }
  ::close(ends[1]);
  Ended ended;
  std::string text;
  while (true) {
    const double left = limit - seconds_since(start);
    pollfd wait{.fd = ends[0], .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(std::ceil(left * 1e3))) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      ended.overran = true;
      ::kill(child, SIGKILL);
      break;
    }
    char some[4096];
    const ssize_t n = ::read(ends[0], some, sizeof some);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(some, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  // A process that ends may hang in the driver, too, and even a killed one.
  constexpr double kGrace = 10;
  int status = 0;
  pid_t reaped = 0;
  for (double until = seconds_since(start) + kGrace;
       (reaped = ::waitpid(child, &status, WNOHANG)) == 0; ::usleep(2000)) {
    if (seconds_since(start) < until) continue;
    if (ended.overran) break;  // nothing more can be done
    ended.overran = true;
    ::kill(child, SIGKILL);
    until += kGrace;
  }
  ended.seconds = seconds_since(start);
  ended.failure = how(status, ended.overran, ended.seconds);
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = text.substr(begin, end + 1 - begin);
    if (line[0] == kErrorMark)
      ended.failure = line.substr(1, line.size() - 2);
    else if (line[0] == '{')
      ended.lines += line;
    else if (!ended.failure.empty())
      ended.failure += " " + line.substr(0, line.size() - 1);  // of several lines
  }
  return ended;
}

std::string table_of(const std::vector<std::string>& lines) {
  using nlohmann::ordered_json;
  const auto text_of = [](const ordered_json& value) {
    if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
    return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
  };
  // A table for each row of lines with the same keys.
  std::string out;
  std::vector<std::vector<std::string>> rows;
  const auto print = [&] {
    if (rows.empty()) return;
    for (const auto& row : rows) {
      for (size_t c = 0; c < row.size(); ++c) {
        size_t width = 0;
        for (const auto& other : rows) width = std::max(width, other[c].size());
        out += fmt::format("{}{:<{}}", c ? "  " : "", row[c], c + 1 < row.size() ? width : 0);
      }
      out += '\n';
    }
    out += '\n';
    rows.clear();
  };
  for (const std::string& line : lines) {
    const auto record = ordered_json::parse(line);
    std::vector<std::string> keys, values;
    for (const auto& [key, value] : record.items()) {
      if (key == "algorithm") continue;  // long
      keys.push_back(key);
      values.push_back(text_of(value));
    }
    if (rows.empty() || rows.front() != keys) {
      print();
      rows.push_back(keys);
    }
    rows.push_back(values);
  }
  print();
  return out;
}

}  // namespace hlite::probe
