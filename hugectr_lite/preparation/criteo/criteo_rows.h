// Criteo's click logs (data_reader/criteo/criteo_record.h) for the preparation engine.
#pragma once

#include <cstdint>
#include <memory>

#include "hugectr_lite/preparation/engine/row_parser.h"

namespace hlite::prep {

// Keys are taken modulo key_range; 0: not at all. Lines that are not `labelled` lack the label and
// its tab: their rows have label 0.
std::unique_ptr<RowParser> make_criteo_rows(uint32_t key_range, bool labelled = true);

}  // namespace hlite::prep
