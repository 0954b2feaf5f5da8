#include "hugectr_lite/config/key_record.h"

#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {
thread_local KeyRecord* living = nullptr;
}

KeyRecord::KeyRecord() {
  HLITE_CHECK(living == nullptr, "a KeyRecord lives already");
  living = this;
}
KeyRecord::~KeyRecord() { living = nullptr; }

bool KeyRecord::lives() { return living != nullptr; }

KnownKey& KeyRecord::known(const std::string& object, std::string_view key) {
  std::vector<KnownKey>& keys = living->objects_[object];
  for (KnownKey& known : keys)
    if (known.name == key) return known;
  return keys.emplace_back(KnownKey{.name = std::string(key)});
}

void KeyRecord::add(const std::string& object, std::string_view key, std::string otherwise) {
  if (!lives()) return;
  KnownKey& found = known(object, key);
  if (!otherwise.empty()) found.otherwise = std::move(otherwise);
}

void KeyRecord::add_refused(const std::string& object, std::string_view key, std::string_view why) {
  if (lives()) known(object, key).refused = why;
}

}  // namespace hlite::config
