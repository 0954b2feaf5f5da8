// The temporary place of a checkpoint that is not complete yet, or is being removed. It lies next
// to the final place and has the id of this process in its name.
#pragma once

#include <string>

namespace hlite::checkpoint {

// "<place>.tmp.<pid>"
std::string temporary_name(const std::string& place);
// Removes <place>.tmp.<pid> of processes that are gone, and of an earlier one with our own id, as far
// as this user may: what is left is no reason not to save.
void remove_stale(const std::string& place);

}  // namespace hlite::checkpoint
