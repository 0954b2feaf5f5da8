// A first config for prepared data: short, complete, with early stopping, for its reader to change.
#pragma once

#include <string>
#include <vector>

#include "data_reader/manifest.h"

namespace hlite::prep {

// The models that there are first configs of: dlrm, dcnv2, deepfm, wdl, dcn.
const std::vector<std::string>& first_config_models();

// The JSON text of a config that trains `model` on the data of a manifest. Sizes follow the number
// of training rows. `folder` is put before the names of files: "" if the config lies in the
// manifest's folder, or a path from its place, such as "work/adult/". Throws ConfigError for a name
// that is no model, for dlrm without dense features, and for data without training rows.
std::string first_config(const std::string& model, const data::Manifest& manifest,
                         const std::string& folder);

}  // namespace hlite::prep
