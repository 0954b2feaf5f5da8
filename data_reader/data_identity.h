// The identity of prepared data says which ids stand for which categories in which slot, and what
// became of the other columns. A model can only score, or go on with, data of the identity that it
// was trained on. Manifests have it for their data, checkpoints and exported weights for their
// model.
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
  std::vector<IdentityPart>
      slots;  // the vocabulary: 16 digits of all (category, id), or a rule for ids
  std::vector<IdentityPart> dense;  // the transform, with the statistics of the training rows
  std::vector<IdentityPart>
      rules;  // for the whole: what is label 1, what is missing, multi-hot lists

  // Data without a manifest, or with one of an earlier version, have no known identity.
  [[nodiscard]] bool known() const { return !slots.empty() || !dense.empty(); }
  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

// `parts` as a JSON list of {"name": ..., <value>: ...}, and back. Throws ConfigError.
nlohmann::ordered_json parts_json(const std::vector<DataIdentity::IdentityPart>& parts,
                                  const char* value);
void declare_parts(config::Block& s, const char* key, const char* value,
                   std::vector<DataIdentity::IdentityPart>& parts);

// Returns 16 digits that stand for the identity in the manifests of data that continue it.
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
  // Not part of the text: the place of the manifest, for messages, and Manifest::continues.
  std::string place = {};
  std::vector<std::string> continues = {};

  // Returns whether the data keep the ids of `earlier` and add new ones.
  [[nodiscard]] bool continues_from(const DataIdentity& earlier) const;

  // JSON, empty where nothing is known; and back. `place` stands for the text in messages. Throws
  // DataError.
  [[nodiscard]] std::string to_text() const;
  static TrainedOn parse(const std::string& text, const std::string& place);
};

// Policy for data whose identity is not the model's.
enum class OtherData { kRefuse, kWarn };

// Compares data, found at `place` ("data/manifest.json"), with what `model` was trained on. Where
// either is unknown there is nothing to compare. Throws DataError, or warns; both name what
// differs.
void check_same_data(const DataIdentity& expected, const std::string& model,
                     const DataIdentity& found, const std::string& place, OtherData other);

}  // namespace hlite::data
