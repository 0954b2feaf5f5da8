// Checks that a prepared file matches its manifest, and the manifest the config that reads it. A
// file of the right size may hold the wrong data: integers instead of floats, the keys of another
// slot, an older preparation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data_reader/manifest.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

struct Misfit {
  std::string fault;    // size_of_manifest, stale_file, wrong_format, record_size, dense_dim, ...
  std::string message;  // "<path>: expected ..., as <manifest> says, found ..."
  std::string advice;
};

// `entry`: what find_manifest_of(path) found. `slot_rows`: rows of each slot's table, empty if
// unknown. Reports only the first misfit; it may cause others.
std::optional<Misfit> find_misfit(const ManifestEntry& entry, const std::string& path,
                                  const config::DataConfig& config,
                                  std::span<const int64_t> slot_rows);

// Slots of an embedding layer that share a table need one vocabulary, or the same key means
// different things in it. `slots`: the layer's, among those of the data; `tables`: of each.
std::optional<Misfit> find_mixed_vocabularies(const ManifestEntry& entry, const std::string& layer,
                                              std::span<const int64_t> slots,
                                              std::span<const int64_t> tables);

// Returns advice to set slot_tables if slots of a layer without them share a vocabulary.
std::optional<std::string> find_shareable_tables(const ManifestEntry& entry,
                                                 const std::string& layer,
                                                 std::span<const int64_t> slots);

// Returns a misfit if the size or sampled bytes of the data at `path` are not as prepared.
std::optional<Misfit> find_stale(const ManifestEntry& entry, const std::string& path);

// Throws DataError for what find_misfit() finds, if a manifest names the file.
void require_fit(const std::string& path, const config::DataConfig& config,
                 std::span<const int64_t> slot_rows);

}  // namespace hlite::data
