// The ids that a preparation gave to the categories of one column, for new rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data_reader/manifest.h"
#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/preparation/engine/key_dictionary.h"

namespace hlite::prep {

class SavedIds {
 public:
  // id = mix(key) mod `range`, and key 0 is id 0: NumberingRecipe::hash_range.
  explicit SavedIds(uint64_t range) : hash_range_(range) {}
  // From the vocabulary that `feature` names (read_vocabulary()). `rows`: of the column's table.
  // `has_other`: id 0 stands for all that have no id of their own; else they get `rows`, which is
  // outside of the table. Throws DataError for a file that is not the manifest's.
  SavedIds(const std::string& folder, const config::JsonNode& feature, int64_t rows,
           bool has_other);

  [[nodiscard]] uint32_t id_of(uint64_t key) const;
  // The id of what the training rows did not have.
  [[nodiscard]] uint32_t unknown() const { return unknown_; }
  // Ids that are hashes are never unknown.
  [[nodiscard]] bool is_unknown(uint32_t id) const { return hash_range_ == 0 && id == unknown_; }

 private:
  struct KnownIds {
    MemoryBudget memory{int64_t{1} << 62};  // what there is
    KeyDictionary<uint64_t> ids{memory};
  };
  uint64_t hash_range_ = 0;
  std::unique_ptr<KnownIds> known_;
  uint32_t first_ = 0;  // id of the vocabulary's first key
  uint32_t unknown_ = 0;
};

}  // namespace hlite::prep
