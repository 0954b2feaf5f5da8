// Configs of HugeCTR 2.0, as those of 2.1.
#pragma once

#include "hugectr_lite/config/json_node.h"

namespace hlite::config {

// Rewrites a config of HugeCTR 2.0, which has `data` next to `solver` and no Data layer:
//
//   data                          the Data layer, its keys "keys", its labels "label", no dense
//                                 features; Norm files without checksums unless it says otherwise
//   an embedding                  its bottom is "keys"; slot_num in sparse_embedding_hparam is
//                                 that of `data`
//   a Concat of one tensor        a Reshape to one row for each sample
//   a loss with one bottom        it and "label"
//
// Everything else stays, and every node keeps its place in the file. Does nothing to other
// configs. Throws ConfigError for a slot_num that is not that of `data`, and for keys of the Data
// layer of later versions.
void translate_hugectr_2_0(JsonNode& root);

}  // namespace hlite::config
