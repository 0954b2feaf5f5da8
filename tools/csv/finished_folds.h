// Which folds of a preparation of several are finished, in <folder>/.folds, so that the command
// that was killed goes on with the next one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace hlite::tools {

class FinishedFolds {
 public:
  // `run`: options and inputs. Folds that were finished in another run do not count.
  FinishedFolds(const std::string& folder, const nlohmann::ordered_json& run);
  [[nodiscard]] bool has(int64_t fold) const { return fold < finished_; }
  // Folds are finished in their order. Throws FileError.
  void add(int64_t fold);
  // After the last one.
  void remove();

 private:
  std::string path_, run_;
  int64_t finished_ = 0;
};

}  // namespace hlite::tools
