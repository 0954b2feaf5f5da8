// Layer types that name an embedding: what a config may say where no dense layer stands.
#pragma once

namespace hlite::config {

inline constexpr const char* kEmbeddingTypes[] = {
    "HybridSparseEmbedding", "LocalizedSlotSparseEmbeddingOneHot",
    "LocalizedSlotSparseEmbeddingHash", "DistributedSlotSparseEmbeddingHash"};

}  // namespace hlite::config
