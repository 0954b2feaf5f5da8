#include "hugectr_lite/core/error.h"

namespace hlite {

void fail_check(const char* place, const char* condition, fmt::string_view format,
                fmt::format_args args) {
  throw Error(fmt::format("{}: {} failed: {}", place, condition, fmt::vformat(format, args)));
}

}  // namespace hlite
