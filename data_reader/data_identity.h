// The identity of prepared data records which id stands for which category in each slot, and how
// the other columns were transformed. A model can only score, or continue training on, data with
// the identity that it was trained on. Manifests hold the identity of their data. Checkpoints and
// exported weights hold that of the model's training data.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace hlite::config {
class Block;
}

namespace hlite::data {

struct DataIdentity {
  struct IdentityPart {
    std::string name, value;
    friend bool operator==(const IdentityPart&, const IdentityPart&) = default;
  };
  // Vocabulary of each slot: a hash in 16 digits of its (category, id), or the rule that makes ids.
  std::vector<IdentityPart> slots;
  // Transform of each dense feature, with statistics of the training rows.
  std::vector<IdentityPart> dense;
  // Rules for all columns: which labels are 1, which fields are missing, how multi-hot lists arise.
  std::vector<IdentityPart> rules;

  // Data without a manifest, or with one of an earlier version, have no known identity.
  [[nodiscard]] bool known() const { return !slots.empty() || !dense.empty(); }
  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

// Returns `parts` as a JSON list of {"name": ..., <value>: ...}.
nlohmann::ordered_json parts_json(const std::vector<DataIdentity::IdentityPart>& parts,
                                  const char* value);
// Declares `key` as such a list, which is read into `parts`. Throws ConfigError if it is malformed.
void declare_parts(config::Block& s, const char* key, const char* value,
                   std::vector<DataIdentity::IdentityPart>& parts);

// Returns a hash of the identity in 16 digits (Manifest::continues).
std::string digits_of(const DataIdentity& identity);

// Describes the differences in a message: "vocabulary of slots user, item; transform of dense
// feature age: standardize ..., here none". Returns an empty text if there are none.
std::string difference(const DataIdentity& expected, const DataIdentity& found);

// The data that a model was trained on, as its checkpoints and weights files carry it.
struct TrainedOn {
  DataIdentity identity;
  std::string file;  // name of the training data, without its folder
  int64_t rows = 0;
  std::string xxh3;
  // These two are not part of to_text().
  std::string place = {};                   // path of the manifest, for messages
  std::vector<std::string> continues = {};  // Manifest::continues

  // Returns true if the data keep the ids of `earlier` and only add new ones.
  [[nodiscard]] bool continues_from(const DataIdentity& earlier) const;

  // Returns JSON text, empty if the identity is unknown.
  [[nodiscard]] std::string to_text() const;
  // Parses such a text. Messages name it by `place`. Throws DataError.
  static TrainedOn parse(const std::string& text, const std::string& place);
};

// Policy for data whose identity is not the model's.
enum class OtherData { kRefuse, kWarn };

// Compares `found`, the identity of the data at `place` ("data/manifest.json"), with `expected`,
// that of the data that `model` was trained on. Accepts any data if either is unknown. If they
// differ, it throws DataError or logs a warning, as `other` says; both name the differences.
void check_same_data(const DataIdentity& expected, const std::string& model,
                     const DataIdentity& found, const std::string& place, OtherData other);

}  // namespace hlite::data
