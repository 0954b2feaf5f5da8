// A first config for prepared data: short, complete, with early stopping, for its reader to change.
#pragma once

#include <string>

#include "hugectr_lite/preparation/models/model_layers.h"

namespace hlite::prep {

// The JSON text of a config that trains `model`, one of first_config_models(), on prepared data.
// Sizes follow the number of training rows; `sizes`, an object, may choose others of models that
// read histories. Throws ConfigError for a name that is no model, for data without training rows,
// and for labels or histories other than the model has.
std::string first_config(const std::string& model, const PreparedData& data,
                         const config::JsonNode* sizes = nullptr);
// On those of a manifest. `folder`: "" if the config lies in the manifest's folder, or a path from
// its place, such as "work/adult/".
std::string first_config(const std::string& model, const data::Manifest& manifest,
                         const std::string& folder);

}  // namespace hlite::prep
