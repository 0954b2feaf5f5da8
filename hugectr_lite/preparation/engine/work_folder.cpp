#include "hugectr_lite/preparation/engine/work_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kState = "state.json";
constexpr const char* kDurable = "durable.json";
constexpr const char* kTemporary = ".new";
constexpr const char* kPublishing = "publishing";

// Makes <out>/.prep, claimed by <out>/.prep.lock: a holder removes the folder at its end.
FileLock lock_folder(const std::string& folder) {
  make_folder(parent_directory(folder));
  FileLock lock((fs::path(folder).parent_path() / "prep").string());
  if (!lock.held())
    raise<FileError>("{}: another run is working in this folder ({}); wait for it, or end it",
                     folder, lock.holder());
  make_folder(folder);
  return lock;
}

// Nothing for a file that is missing or damaged.
std::optional<ordered_json> read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

}  // namespace

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

WorkFolder::WorkFolder(const std::string& out)
    : folder_((fs::path(out) / ".prep").string()),
      lock_(lock_folder(folder_)),
      has_durable_(fs::exists(path(kDurable))) {}

std::optional<ordered_json> WorkFolder::load() const {
  if (auto state = read_json(path(kState)); state && state->value("boot", "") == boot_id())
    return state;
  return read_json(path(kDurable));
}

void WorkFolder::save(const ordered_json& state) {
  ordered_json with_boot = state;
  with_boot["boot"] = boot_id();
  const std::string temporary = path(kState) + kTemporary;
  const std::string text = with_boot.dump(1);
  WriteFile(temporary).write(std::as_bytes(std::span(text)));  // durable or not
  rename_path(temporary, path(kState));
}

void WorkFolder::save_durable(const ordered_json& state) {
  const std::string text = state.dump(1);
  WriteFile file(path(kDurable) + kTemporary);
  file.write(std::as_bytes(std::span(text)));
  file.close();
  has_durable_ = true;
  replace_path(file.name(), path(kDurable));
}

void WorkFolder::begin_publishing() {
  WriteFile(path(kPublishing)).close();
  sync_directory(folder_);
}

bool WorkFolder::publishing() const { return fs::exists(path(kPublishing)); }

void WorkFolder::clear() {
  // The states go first: they must not speak of what is gone.
  for (const char* name : {kState, kDurable}) remove_path(path(name));
  for (const auto& entry : fs::directory_iterator(folder_)) remove_path(entry.path().string());
  has_durable_ = false;
}

void WorkFolder::remove() {
  clear();
  remove_path(folder_);
  lock_.reset();
}

}  // namespace hlite::prep
