// Facts that must be the same in all processes of a run.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hlite::comm {

// Names and values of one line each, such as "solver.batchsize", "4096".
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

// Returns one text, to send to other processes.
std::string text_of(const RunIdentity& identity);
// The first entries in which the texts of two processes differ, at most three of them:
// "solver.batchsize: expected 4096, as in process 0, found 2048". Empty if none does.
std::string difference(std::string_view mine, std::string_view first_process);

}  // namespace hlite::comm
