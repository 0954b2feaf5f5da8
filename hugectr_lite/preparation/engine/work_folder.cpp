#include "hugectr_lite/preparation/engine/work_folder.h"

#include <filesystem>
#include <fstream>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kState = "done.cbor";
constexpr const char* kTemporary = ".new";
constexpr const char* kPublishing = "publishing";

std::string place_in(const std::string& out) {
  make_folder(out);
  return (fs::path(out) / ".prep").string();
}

}  // namespace

// The lock is <out>/.prep.lock: a holder removes the folder at its end.
WorkFolder::WorkFolder(const std::string& out)
    : folder_(place_in(out)), lock_((fs::path(out) / "prep").string()) {
  if (!lock_.held())
    raise<FileError>("{}: another run is working in this folder ({}); wait for it, or end it",
                     folder_, lock_.holder());
  make_folder(folder_);
}

std::optional<ordered_json> WorkFolder::load() const {
  std::ifstream file(path(kState), std::ios::binary);
  ordered_json state = ordered_json::from_cbor(file, true, false);
  if (!state.is_object()) return std::nullopt;  // it is missing or damaged
  return state;
}

void WorkFolder::save(const ordered_json& state, bool durable) {
  if (durable) {
    for (const auto& entry : fs::directory_iterator(folder_)) sync_file(entry.path().string());
    sync_directory(folder_);
  }
  const std::vector<uint8_t> bytes = ordered_json::to_cbor(state);  // whose strings hold any bytes
  WriteFile file(path(kState) + kTemporary);
  file.write(std::as_bytes(std::span(bytes)));
  if (!durable) return rename_path(file.name(), path(kState));
  file.close();
  replace_path(file.name(), path(kState));
}

void WorkFolder::begin_publishing() {
  sync_file(path(kState));
  WriteFile(path(kPublishing)).close();
  sync_directory(folder_);
}

bool WorkFolder::publishing() const { return fs::exists(path(kPublishing)); }

void WorkFolder::clear() {
  remove_path(path(kState));  // first: it must not speak of what is gone
  for (const auto& entry : fs::directory_iterator(folder_)) remove_path(entry.path().string());
}

void WorkFolder::remove() {
  clear();
  remove_path(folder_);
}

}  // namespace hlite::prep
