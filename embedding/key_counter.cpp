#include "embedding/key_counter.h"

#include "embedding/exact_counter.h"
#include "embedding/key_filter.h"

namespace hlite::embedding {

std::unique_ptr<KeyCounter> make_key_counter(const TablesSpec& spec, KeyCounterPlace place) {
  switch (spec.vocabulary.admission.type) {
    case AdmissionType::kCount:
      return std::make_unique<ExactCounter>(spec, std::move(place));
    case AdmissionType::kBloom:
      return std::make_unique<KeyFilter>(spec, std::move(place));
    case AdmissionType::kAll:
    case AdmissionType::kProbability:
      break;
  }
  return nullptr;
}

}  // namespace hlite::embedding
