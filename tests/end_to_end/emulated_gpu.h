// `train` on an emulated GPU.
#pragma once

#include <string>
#include <vector>

#include "tests/end_to_end/small_run.h"

namespace hlite::test {

inline const std::vector<std::string> kEmulated = {
    "/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN};

inline ProgramResult train_on_gpu(const SmallRun& run, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = kEmulated;
  const auto train = run.command(arguments);
  command.insert(command.end(), train.begin(), train.end());
  command.insert(command.end(), {"--quiet", "--device", "cuda"});
  return run_program(command);
}

// `train` on the emulated GPU with that many bytes of memory.
inline ProgramResult train_with(size_t memory, const SmallRun& run,
                                std::vector<std::string> arguments) {
  std::vector<std::string> command = kEmulated;
  command.push_back("HLITE_EMULATED_MEMORY=" + std::to_string(memory));
  const auto train = run.command(std::move(arguments));
  command.insert(command.end(), train.begin(), train.end());
  return run_program(command);
}

}  // namespace hlite::test
