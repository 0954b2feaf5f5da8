// Types of embedding layers, which a config lists between the Data layer and the first dense layer.
#pragma once

#include <optional>
#include <string_view>

namespace hlite::config {

enum class EmbeddingType { kHybrid, kLocalizedOneHot, kLocalizedHash, kDistributedHash };

struct EmbeddingTypeName {
  const char* name;
  EmbeddingType type;
};
inline constexpr EmbeddingTypeName kEmbeddingTypes[] = {
    {"HybridSparseEmbedding", EmbeddingType::kHybrid},
    {"LocalizedSlotSparseEmbeddingOneHot", EmbeddingType::kLocalizedOneHot},
    {"LocalizedSlotSparseEmbeddingHash", EmbeddingType::kLocalizedHash},
    {"DistributedSlotSparseEmbeddingHash", EmbeddingType::kDistributedHash}};

// Returns nullopt if `layer_type` is not an embedding.
constexpr std::optional<EmbeddingType> embedding_type(std::string_view layer_type) {
  for (const EmbeddingTypeName& known : kEmbeddingTypes)
    if (known.name == layer_type) return known.type;
  if (layer_type == "SparseEmbedding" || layer_type == "SparseEmbeddingHash")  // HugeCTR 2.0
    return EmbeddingType::kDistributedHash;
  return std::nullopt;
}

// Returns true if rows are inserted when their keys are first seen.
constexpr bool is_hashed(EmbeddingType type) {
  return type == EmbeddingType::kLocalizedHash || type == EmbeddingType::kDistributedHash;
}

}  // namespace hlite::config
