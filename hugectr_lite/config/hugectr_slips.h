// Slips in configs that come with HugeCTR.
#pragma once

#include "hugectr_lite/config/json_node.h"

namespace hlite::config {

// Corrects slips that configs of HugeCTR's samples and tests have and that can only be meant in one
// way, and warns of each:
//
//   a Reshape whose bottom no layer makes, but whose top an earlier layer makes and whose bottom a
//   later one reads (test/scripts/din_fp32_1gpu.json): the two are exchanged
//   a Reshape that makes each slot's vector a row, with nothing but layers of rows between it and
//   the loss (samples/criteo/criteo_bin.json), so that a sample has a logit for each slot and one
//   label: its rows become samples
//
// Both would be refused otherwise, so no valid config is changed. Malformed nodes are left to the
// blocks that read them.
void correct_hugectr_slips(JsonNode& root);

}  // namespace hlite::config
