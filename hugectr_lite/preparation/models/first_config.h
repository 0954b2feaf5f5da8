// A first config for prepared data: short, complete, with early stopping, for its reader to change.
#pragma once

#include <string>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/models/model_layers.h"

namespace hlite::prep {

// The JSON text of a config that trains `model`, one of first_config_models(), on the data of a
// manifest. Sizes follow the number of training rows. `folder` is put before the names of files: ""
// if the config lies in the manifest's folder, or a path from its place, such as "work/adult/".
// Throws ConfigError for a name that is no model, for data without training rows, and for more or
// fewer labels than the model has scores.
std::string first_config(const std::string& model, const data::Manifest& manifest,
                         const std::string& folder);

}  // namespace hlite::prep
