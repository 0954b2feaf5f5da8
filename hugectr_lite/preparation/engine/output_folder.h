// The files of a preparation in its output folder. One folder holds one preparation: a split, a
// vocabulary or a manifest of an earlier one among the new files would give wrong ids silently.
#pragma once

#include <string>
#include <vector>

namespace hlite::prep {

// The files in `folder` that have the name of a result, of any split and format, sorted, as paths
// relative to it. Temporary files are none.
std::vector<std::string> results_in(const std::string& folder);

// Throws ConfigError "<out>: ..." that names the files where `found` is not empty.
void refuse_results(const std::string& out, const std::vector<std::string>& found);

// Removes the results in `folder` that are not among `kept` (relative paths), and subfolders of
// results that become empty.
void remove_other_results(const std::string& folder, const std::vector<std::string>& kept);

}  // namespace hlite::prep
