// A picture of the skew: the share of look-ups that the k most frequent rows take, over log k.
#pragma once

#include <string>

#include "hugectr_lite/preparation/inspect/column_stats.h"

namespace hlite::prep {

// Block characters, `width` columns of `height` lines and the axes' labels. "" without look-ups.
std::string skew_picture(const Skew& skew, int width = 60, int height = 8);
// The same as an SVG document; `title` above it.
std::string skew_svg(const Skew& skew, const std::string& title);

}  // namespace hlite::prep
