// Vocabularies in the folder of a preparation: which category or key has which id.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "hugectr_lite/config/json_node.h"

namespace hlite::prep {

// XXH3 (64 bits) of the category; 1 in place of 0 and kAbsentKey (data_reader/text/line_parser.h).
uint64_t token_key(std::string_view token);

// A line of a vocabulary of texts to the category.
std::string category_of_line(std::string_view line);

// Calls visit(key) for the keys of the vocabulary that `feature`, an element of the manifest's
// features.categorical, names, in the order of their ids: texts, of which token_key() is the key,
// or an array of 32-bit keys, whose first `skipped` stand for none. Throws DataError for a file
// that is not the manifest's.
void read_vocabulary(const std::string& folder, const config::JsonNode& feature, uint32_t skipped,
                     const std::function<void(uint64_t key)>& visit);

}  // namespace hlite::prep
