// NoSamplesError: data without a single sample, where some are needed.
#pragma once

#include "hugectr_lite/core/error.h"

namespace hlite::data {

class NoSamplesError : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace hlite::data
