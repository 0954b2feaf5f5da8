// Finds and opens the Parquet plug-in (parquet_plugin.h).
#pragma once

#include <string>

#include "data_reader/parquet/parquet_plugin.h"

namespace hlite::data::parquet {

// The plug-in, opened by the first call: the library that $HLITE_PARQUET_LIBRARY names; without it
// the plugin_file(). Lives until the process ends. Throws DataError that says what is missing and
// how to get it.
const Plugin& plugin();
// Why plugin() would throw; empty: it would not.
std::string why_missing();

}  // namespace hlite::data::parquet
