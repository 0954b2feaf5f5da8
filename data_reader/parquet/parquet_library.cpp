#include "data_reader/parquet/parquet_library.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/plugin_file.h"

namespace hlite::data::parquet {
namespace {

const OpenedPlugin& opened() {
  static const OpenedPlugin once = open_plugin(
      {.name = "Parquet",
       .library = kLibraryName,
       .entry = kEntryName,
       .variable = "HLITE_PARQUET_LIBRARY",
       .advice = "reading Parquet needs Arrow C++: pip install 'hugectr_lite[parquet]' or, for a "
                 "build of your own, tools/setup.sh --parquet, then configure and build again",
       .version = kInterfaceVersion});
  return once;
}

}  // namespace

const Plugin& plugin() {
  if (!opened().table) throw DataError(opened().reason);
  return *static_cast<const Plugin*>(opened().table);
}

std::string why_missing() { return opened().reason; }

}  // namespace hlite::data::parquet
