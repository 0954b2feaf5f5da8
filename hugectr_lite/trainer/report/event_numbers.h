// The numbers of a run under their names: the one list that the metrics file, the report,
// TensorBoard and Python take them from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/trainer/report/run_record.h"

namespace hlite::trainer {

struct NamedNumber {
  std::string name;
  std::optional<double> value;  // none where it does not exist, as the AUC of one class
};

// "loss", "batch_loss", "lr", "samples_per_s", "wait_share", and "replaced_share" of keys where
// key_policy replaces those outside of their tables, as in an evaluation; "resident_share" of
// lookups where tables are larger than memory
std::vector<NamedNumber> numbers_of(const TrainEvent& event);
// "resident_share" of lookups, and per iteration "read_rows", "read_bytes", "written_rows" and
// "written_bytes" of a layer whose tables are larger than memory; then the expected values
std::vector<NamedNumber> numbers_of(const LayerTiers& tiers, const embedding::RowCacheCounts& moved,
                                    int64_t iterations);
// "rows" and "candidates" now; "inserted", "expired", "rare", "small", "displaced" and "refused"
// since the run began
std::vector<NamedNumber> numbers_of(const embedding::VocabularyCounts& counts);
// The name of a metric's number: "NDCG@10" -> "ndcg@10", "HitRate@5" -> "hit_rate@5".
std::string member_name(const std::string& metric);
// "auc", "loss", the further metrics ("ndcg@10", "hit_rate@10"), "samples", "seconds"
std::vector<NamedNumber> numbers_of(const EvalResult& result);
// "auc", "loss", the further metrics, "samples"
std::vector<NamedNumber> numbers_of(const TaskResult& task);

// "auc":0.78,"loss":0.53, with null for what does not exist
std::string json_members(const std::vector<NamedNumber>& numbers);

}  // namespace hlite::trainer
