// The checksum that a manifest ends in: of its own text without the blanks that lay it out, but for
// the member that holds the sum.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hlite::checkpoint {

// The text of a manifest, with its sum as the last member "xxh3_64".
std::string with_sum(nlohmann::ordered_json manifest);
// Throws DataError where `text`, which is JSON, does not end in its own sum, which it says is
// `expected`.
void check_sum(const std::string& text, const std::string& expected, const std::string& name);

}  // namespace hlite::checkpoint
