// Options of command lines that take a whole number. CLI11 itself takes one that is too large for
// its type for the largest there is, and names limits with hundreds of digits.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace hlite {

// The most threads that a program may be given.
inline constexpr int64_t kMaxThreads = 4096;

// A check of an option: "expected a whole number from 1 to 4096, found "-5"".
CLI::Validator whole_number(int64_t least, int64_t most = INT64_MAX);

}  // namespace hlite
