// Lines without the label that a format's lines begin with.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tools/prep/row_parser.h"

namespace hlite::tools {

// A parser of lines to which `label` has been added in front; its rows have that label.
std::unique_ptr<RowParser> with_label(std::unique_ptr<RowParser> parser, std::string label);

}  // namespace hlite::tools
