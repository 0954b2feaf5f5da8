#include "hugectr_lite/preparation/apply/saved_ids.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

namespace hlite::prep {

SavedIds::SavedIds(const std::string& folder, const config::JsonNode& feature, int64_t rows,
                   bool has_other)
    : known_(std::make_unique<KnownIds>()),
      first_(has_other ? 1 : 0),
      unknown_(has_other ? 0 : static_cast<uint32_t>(rows)) {
  read_vocabulary(folder, feature, first_, [&](uint64_t key) {
    uint32_t id = 0;
    known_->ids.number(&key, 1, &id);
  });
  if (const int64_t found = known_->ids.size() + first_; found != rows)
    raise<DataError>(
        "{}/{}: expected the categories of {} ids as manifest.json says, found those of {}", folder,
        config::to_string(config::member(feature, "vocabulary")), rows, found);
}

uint32_t SavedIds::id_of(uint64_t key) const {
  if (hash_range_ > 0) return key == 0 ? 0 : static_cast<uint32_t>(mix(key) % hash_range_);
  const int64_t found = known_->ids.find(key);
  return found < 0 ? unknown_ : static_cast<uint32_t>(found) + first_;
}

}  // namespace hlite::prep
