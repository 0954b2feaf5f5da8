#include "hugectr_lite/trainer/report/run_record.h"

#include "hugectr_lite/core/log.h"

namespace hlite::trainer {

const char* name_of(EndReason reason) {
  switch (reason) {
    case EndReason::kMaxIter:
      return "max_iter";
    case EndReason::kEpochs:
      return "epochs";
    case EndReason::kTarget:
      return "target";
    case EndReason::kInterrupted:
      return "interrupted";
    case EndReason::kEarlyStop:
      return "early_stop";
    case EndReason::kEndOfData:
      return "end_of_data";
  }
  raise("end reason {}", static_cast<int>(reason));
}

std::vector<std::string> vocabulary_texts(const VocabularyEvent& event) {
  std::vector<std::string> texts;
  for (const auto& [name, n] : event.layers) {
    std::string left;
    const auto add = [&](int64_t rows, const char* why) {
      if (rows > 0) left += fmt::format("{}{} {}", left.empty() ? ": " : ", ", rows, why);
    };
    add(n.expired, "unused (steps_to_live)");
    add(n.rare, "rare (min_count)");
    add(n.small, "small (min_l2_norm)");
    add(n.displaced, "when full (when_full)");
    texts.push_back(fmt::format(
        "iter {}  {}: {} rows, {} came and {} left in this run{}{}{}", event.iter, name, n.rows,
        n.inserted, n.evicted(), left,
        n.candidates > 0 ? fmt::format("; {} keys counted without a row", n.candidates) : "",
        n.refused > 0 ? fmt::format("; {} requests without a row", n.refused) : ""));
  }
  return texts;
}

void RunRecords::lose(size_t index, const char* why) {
  log::warning("{}; the run goes on without it, and exits with {}", why, int{kExitData});
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
  lost_any_ = true;
}

}  // namespace hlite::trainer
