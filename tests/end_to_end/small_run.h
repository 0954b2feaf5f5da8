// A small DLRM on random data, for tests of the program as a whole.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "hugectr_lite/core/random.h"
#include "tests/support/program.h"
#include "tests/support/small_config.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

// Samples whose label depends on the first key and the first dense feature.
inline std::string small_samples(int64_t n, uint64_t seed) {
  std::string bytes;
  const auto put = [&](uint32_t v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
    const auto draw = [&](uint64_t j, uint32_t below) { return random::word(seed, j, i) % below; };
    const uint32_t key = draw(0, 40), dense = draw(1, 50);
    put((key % 2 == 0) == (draw(5, 100) < 80) ? 1 : 0);
    put(dense);
    put(draw(2, 7));
    put(key);
    put(draw(3, 5));
    put(draw(4, 300));
  }
  return bytes;
}

// The change that makes `rows` ("[[0,1],[2,3]]") the topology.
inline std::string gpu(const std::string& rows) { return "solver.gpu=" + rows; }

// The change that makes a run end `more` iterations after the checkpoint's.
inline std::string iterations_after(const std::string& checkpoint, int more) {
  const auto manifest = nlohmann::json::parse(read_text(checkpoint + "/manifest.json"));
  return "solver.max_iter=" + std::to_string(manifest["iteration"].get<int64_t>() + more);
}

// A command with changes of the config.
inline std::vector<std::string> with_changes(std::vector<std::string> command,
                                             const std::vector<std::string>& changes) {
  for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
  return command;
}

// As of a run that ends only when it is interrupted.
inline constexpr const char* kEndless = "solver.max_iter=1000000000";

class SmallRun {
 public:
  SmallRun() {
    write_text(directory_ / "config.json", small_config());
    write_text(directory_ / "train.bin", small_samples(500, 1));
    write_text(directory_ / "eval.bin", small_samples(333, 2));
  }
  [[nodiscard]] std::string operator/(const std::string& file) const { return directory_ / file; }
  [[nodiscard]] const std::string& path() const { return directory_.path(); }
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {HLITE_TRAIN, "--config", directory_ / "config.json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ProgramResult train(std::vector<std::string> more = {},
                      const std::vector<std::string>& changes = {}) const {
    return run_program(command(with_changes(std::move(more), changes)));
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace hlite::test
