// JSON from a file that may be damaged or hostile: what nlohmann::json accepts without a word
// (duplicate keys, nesting that exhausts the stack) is an error here.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace hlite::checkpoint {

// Objects keep the order of the text.
using OrderedJson = nlohmann::ordered_json;

// Throws DataError "<name>: <why>". `Json` is nlohmann::json (fast look-up) or OrderedJson.
template <typename Json>
Json parse_json(const std::string& text, const std::string& name);

// Member `key` of an object; DataError naming `where` when absent or of another type.
template <typename Json>
const Json& json_member(const Json& object, const char* key, const std::string& where);
// An integer in [0, 2^63).
template <typename Json>
int64_t json_count(const Json& value, const char* what, const std::string& where);
template <typename Json>
std::string json_string(const Json& value, const char* what, const std::string& where);

}  // namespace hlite::checkpoint
