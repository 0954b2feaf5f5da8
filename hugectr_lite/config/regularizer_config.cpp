#include "hugectr_lite/config/regularizer_config.h"

namespace hlite::config {

RegularizerConfig parse_regularizer(ObjectReader& reader) {
  RegularizerConfig regularizer;
  if (reader.has("regularizer")) {
    regularizer.type = reader.value<Regularizer>(
        "regularizer", {{"L1", Regularizer::kL1}, {"L2", Regularizer::kL2}});
    regularizer.lambda = reader.number("lambda", {.min = 0});
  } else if (reader.has("lambda")) {
    fail_at(reader.member("lambda"), "expected a `regularizer` (L1 or L2) with it, found none");
  }
  return regularizer;
}

}  // namespace hlite::config
