#include "embedding/vocabulary_rules.h"

namespace hlite::embedding {

VocabularyCounts& VocabularyCounts::operator+=(const VocabularyCounts& more) {
  rows += more.rows;
  candidates += more.candidates;
  inserted += more.inserted;
  expired += more.expired;
  rare += more.rare;
  small += more.small;
  displaced += more.displaced;
  refused += more.refused;
  return *this;
}

static void declare_admission(config::Block& s, Admission& admission) {
  s.choice("type", &admission.type,
           {{"count", AdmissionType::kCount}, {"probability", AdmissionType::kProbability}},
           "`count` counts the training batches that have a key. `probability` draws for each key "
           "of a batch and keeps no counts.",
           config::kRequired);
  s.integer("threshold", &admission.threshold, {.min = 1, .max = 1 << 30},
            "For `count`: a key gets its row in the batch that is the threshold-th to have it.");
  s.integer("capacity", &admission.capacity, {.min = 0, .max = int64_t{1} << 31},
            "For `count`: keys without a row that a rank counts. When it counts more, those that "
            "were seen least recently are forgotten.",
            config::otherwise("`max_vocabulary_size_per_gpu`"));
  s.number("probability", &admission.probability, {.min = 0, .max = 1},
           "For `probability`: of a key getting its row in a batch that has it.");
  const bool counts = admission.type == AdmissionType::kCount;
  for (const char* key : {"threshold", "capacity"})
    if (!counts && s.has(key)) s.refuse(key, "expected type \"count\"");
  if (counts && s.has("probability")) s.refuse("probability", "expected type \"probability\"");
}

static void declare_eviction(config::Block& s, Eviction& eviction) {
  s.integer("interval", &eviction.interval, {.min = 0, .max = int64_t{1} << 31},
            "Rows leave after every iteration that it divides; 0 means whenever a checkpoint is "
            "saved.");
  s.integer("steps_to_live", &eviction.steps_to_live, {.min = 0, .max = int64_t{1} << 31},
            "Rows leave that no batch has used in so many iterations; 0 disables it.");
  s.integer("min_count", &eviction.min_count, {.min = 0, .max = 1 << 30},
            "Rows leave that fewer batches have used, unless one has since the eviction before; 0 "
            "disables it.");
  s.number("count_decay", &eviction.count_decay, {.min = 0, .max = 1},
           "Factor on the counts of all rows after each eviction, rounded down.");
  s.number("min_l2_norm", &eviction.min_l2_norm, {.min = 0},
           "Rows leave whose L2 norm is smaller, unless a batch has used them since the eviction "
           "before; 0 disables it.");
  if (s.has("count_decay") && !s.has("min_count")) s.refuse("count_decay", "requires min_count");
}

void declare(config::Block& s, VocabularyRules& rules) {
  if (auto admission = s.object("admission",
                                "Extension: which new keys get a row. A key without a row has its "
                                "`default_vector` and is not trained.",
                                config::otherwise("all of them")))
    declare_admission(*admission, rules.admission);
  if (auto eviction = s.object("eviction", "Extension: which rows leave the tables.",
                               config::otherwise("none")))
    declare_eviction(*eviction, rules.eviction);
  s.choice(
      "when_full", &rules.when_full,
      {{"error", WhenFull::kError}, {"evict", WhenFull::kEvict}, {"default", WhenFull::kDefault}},
      "Extension: what happens when a rank has no row left for a new key. `error` ends the "
      "run. `evict` lets the rows leave that were used least recently, at every "
      "`eviction.interval`: once more than 90 % of the rows are taken, down to 80 %; a key "
      "that finds no row before that waits. `default` gives new keys no row.");
  s.choice("default_vector", &rules.zeros, {{"initial", false}, {"zeros", true}},
           "Extension: the vector of a key without a row, in training and evaluation: the initial "
           "values that its row would have, or zeros.");
}

}  // namespace hlite::embedding
