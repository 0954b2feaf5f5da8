// The manifest that criteo_synth writes for its raw files.
#pragma once

#include <cstdint>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/io/output_file.h"
#include "hugectr_lite/preparation/synth/criteo_synth.h"
#include "hugectr_lite/preparation/synth/key_counts.h"

namespace hlite::prep {

// `counts` of all keys of the training rows; `sizes`: rows of each table. Files must be finished,
// `key_counts` may be written to the end only. The test file is left out when it has no rows.
// `seed`: of the model, from which a key's meaning follows.
data::Manifest synth_manifest(uint64_t seed, const SynthResult& result,
                              const CategoryCounts& counts, const std::vector<int64_t>& sizes,
                              const OutputFile& train, const OutputFile& test,
                              const OutputFile& key_counts);

// The file that Manifest::key_counts_name stands for.
void write_key_counts(const CategoryCounts& counts, const std::vector<int64_t>& sizes,
                      OutputFile& file);

}  // namespace hlite::prep
