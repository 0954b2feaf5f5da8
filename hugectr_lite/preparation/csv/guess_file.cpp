#include "hugectr_lite/preparation/csv/guess_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/engine/output_folder.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

namespace {

constexpr int64_t kMaxBytes = int64_t{64} << 20;  // of a schema

// The schema that the preparation in the folder was made with is no edited one.
bool is_of_preparation(const std::string& schema, const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  if (!std::filesystem::exists(path)) return false;
  using nlohmann::json;
  const json options = json::parse(data::Manifest::read(path).options_json, nullptr, false);
  return options.is_object() &&
         options.value("schema", json()) == json::parse(schema, nullptr, false);
}

}  // namespace

std::string write_guess(const std::string& schema, const std::string& folder, bool force) {
  const std::string path = folder + "/schema.json";
  if (std::filesystem::exists(path)) {
    const std::string found = read_text(ReadFile(path), kMaxBytes);
    if (found == schema) return path;
    if (!force || !is_of_preparation(found, folder))
      raise<ConfigError>(
          "{}: expected no schema other than the one that is guessed, found one: pass it with "
          "--schema, or remove it",
          path);
  } else if (!force) {
    refuse_results(folder, results_in(folder));
  }
  make_folder(folder);
  WriteFile file(path);
  file.write(std::as_bytes(std::span(schema)));
  file.close();
  return path;
}

}  // namespace hlite::prep
