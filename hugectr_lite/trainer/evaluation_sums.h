// EvaluationSums: what metrics of an evaluation set are made of.
#pragma once

#include <cstdint>

namespace hlite::trainer {

struct EvaluationSums {
  unsigned long long positives = 0;
  // Twice the (positive, negative) pairs in which the positive has the higher score; ties count
  // one.
  unsigned long long won_twice = 0;
  // Complement of the index of the first score that is NaN; 0: there is none.
  unsigned long long first_nan = 0;
  double loss = 0;  // binary cross-entropy, summed
};

}  // namespace hlite::trainer
