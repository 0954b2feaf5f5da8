// Where a guessed schema is kept: schema.json in the folder of the preparation, for its owner to
// edit and to pass with --schema.
#pragma once

#include <string>

namespace hlite::prep {

// Writes `schema` to <folder>/schema.json and returns that path. The same one may be there already
// and, with `force`, the one that the preparation in the folder was made with. Throws ConfigError
// where there is another one, which its owner may have edited, or (without `force`) a preparation
// without one; FileError.
std::string write_guess(const std::string& schema, const std::string& folder, bool force);

}  // namespace hlite::prep
