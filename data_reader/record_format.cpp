#include "data_reader/record_format.h"

#include <map>
#include <string_view>

#include "hugectr_lite/core/error.h"

namespace hlite::data {

const RecordFormat& raw_records();   // async_reader.cpp
const RecordFormat& norm_records();  // norm_reader.cpp
const RecordFormat& text_records();  // text/text_reader.cpp
namespace parquet {
const RecordFormat& parquet_records();  // parquet_reader.cpp
}

// By the names in config/data_format.cpp.
static std::map<std::string_view, const RecordFormat*>& registry() {
  static std::map<std::string_view, const RecordFormat*> formats = {
      {"Raw", &raw_records()},     {"RawAsync", &raw_records()},
      {"Norm", &norm_records()},   {"Parquet", &parquet::parquet_records()},
      {"Criteo", &text_records()},
  };
  return formats;
}

const RecordFormat& record_format(const config::DataConfig& config) {
  const auto found = registry().find(config.format->name);
  HLITE_CHECK(found != registry().end(), "no reader of the format {}", config.format->name);
  return *found->second;
}

void add_format(const config::DataFormat& format, const RecordFormat& records) {
  config::data_formats().push_back(&format);
  registry().emplace(format.name, &records);
}

}  // namespace hlite::data
