// What a config may say, as the readers of its objects ask for it.
//
// While a KeyRecord lives, every ObjectReader of this thread tells it which keys it knows and what
// an absent one stands for. The reference of all keys (trainer/keys) is made of that, so it cannot
// say anything else than what the parser does.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hlite::config {

struct KnownKey {
  std::string name;
  std::string otherwise = {};  // what an absent one stands for, as JSON; empty: not said
  std::string refused = {};    // a key of other versions: what to do instead
};

class KeyRecord {
 public:
  // REQUIRES no other one in this thread.
  KeyRecord();
  ~KeyRecord();
  KeyRecord(const KeyRecord&) = delete;
  KeyRecord& operator=(const KeyRecord&) = delete;

  // Keys of each object that was read, by its path ("layers[0].label"; "" is the root), in the
  // order in which they were first asked for.
  [[nodiscard]] const std::map<std::string, std::vector<KnownKey>>& objects() const {
    return objects_;
  }

  // For ObjectReader; nothing happens where no record lives.
  static void add(const std::string& object, std::string_view key, std::string otherwise = {});
  static void add_refused(const std::string& object, std::string_view key, std::string_view why);
  [[nodiscard]] static bool lives();

 private:
  static KnownKey& known(const std::string& object, std::string_view key);
  std::map<std::string, std::vector<KnownKey>> objects_;
};

}  // namespace hlite::config
