// Energy and clock of the processor, where the system lets them be read.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace hlite::trainer {

class PowerMeter {
 public:
  // `root`: where /sys and /proc are.
  explicit PowerMeter(std::string root = "");
  // Mean watts of all processor packages since construction; nothing where counters are missing,
  // not readable, or have run over.
  [[nodiscard]] std::optional<double> watts() const;
  // Mean clock of the processors now, in MHz.
  [[nodiscard]] std::optional<double> megahertz() const;
  // The system's name of the processor; empty where it has none.
  [[nodiscard]] std::string processor() const;

 private:
  [[nodiscard]] std::optional<double> joules() const;
  std::string root_;
  std::optional<double> first_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace hlite::trainer
