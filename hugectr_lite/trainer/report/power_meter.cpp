#include "hugectr_lite/trainer/report/power_meter.h"

#include <filesystem>
#include <fstream>
#include <utility>

namespace hlite::trainer {
namespace {

namespace fs = std::filesystem;

// The values of lines "key<blanks>: value".
template <typename F>
void each_value(const std::string& path, std::string_view key, F&& use) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(": "); line.starts_with(key) && colon != std::string::npos)
      use(line.substr(colon + 2));
}

}  // namespace

PowerMeter::PowerMeter(std::string root)
    : root_(std::move(root)), first_(joules()), start_(std::chrono::steady_clock::now()) {}

std::optional<double> PowerMeter::joules() const {
  std::optional<double> sum;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_ + "/sys/class/powercap", error)) {
    const std::string name = entry.path().filename();
    // "intel-rapl:0" is a package, "intel-rapl:0:1" a part of it.
    if (!name.starts_with("intel-rapl:") || name.find(':') != name.rfind(':')) continue;
    std::ifstream file(entry.path() / "energy_uj");
    if (double microjoules = 0; file >> microjoules) sum = sum.value_or(0) + microjoules * 1e-6;
  }
  return sum;
}

std::optional<double> PowerMeter::watts() const {
  const auto now = joules();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (!now || !first_ || *now < *first_ || seconds <= 0) return std::nullopt;
  return (*now - *first_) / seconds;
}

std::optional<double> PowerMeter::megahertz() const {
  double sum = 0;
  int n = 0;
  each_value(root_ + "/proc/cpuinfo", "cpu MHz", [&](const std::string& text) {
    sum += std::strtod(text.c_str(), nullptr);
    ++n;
  });
  if (n == 0) return std::nullopt;
  return sum / n;
}

std::string PowerMeter::processor() const {
  std::string name;
  each_value(root_ + "/proc/cpuinfo", "model name", [&](const std::string& text) { name = text; });
  return name;
}

}  // namespace hlite::trainer
