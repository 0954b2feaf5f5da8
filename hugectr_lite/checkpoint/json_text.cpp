#include "hugectr_lite/checkpoint/json_text.h"

#include <limits>
#include <set>
#include <vector>

#include "hugectr_lite/core/error.h"

namespace hlite::checkpoint {
namespace {
constexpr int kDeepest = 64;  // destroying and printing a value recurse

// The value, cut short.
template <typename Json>
std::string found(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}
}  // namespace

template <typename Json>
Json parse_json(const std::string& text, const std::string& name) {
  std::vector<std::set<std::string>> keys;  // of the open objects (and of open lists: empty)
  const auto watch = [&](int depth, nlohmann::detail::parse_event_t event, Json& parsed) {
    using Event = nlohmann::detail::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kDeepest)
        raise<DataError>("{}: expected at most {} nested levels", name, kDeepest);
      keys.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        raise<DataError>("{}: expected each name once, found {} twice", name, found(parsed));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    raise<DataError>("{}: expected JSON: {}", name, error.what());
  }
}

template <typename Json>
const Json& json_member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object())
    raise<DataError>("{}: expected an object, found {}", where, found(object));
  const auto it = object.find(key);
  if (it == object.end()) raise<DataError>("{}: expected a member \"{}\", found none", where, key);
  return *it;
}

template <typename Json>
int64_t json_count(const Json& value, const char* what, const std::string& where) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value.is_number_unsigned() || value.template get<uint64_t>() > kMost)
    raise<DataError>("{}: {}: expected an integer >= 0, found {}", where, what, found(value));
  return static_cast<int64_t>(value.template get<uint64_t>());
}

template <typename Json>
std::string json_string(const Json& value, const char* what, const std::string& where) {
  if (!value.is_string())
    raise<DataError>("{}: {}: expected a string, found {}", where, what, found(value));
  return value.template get<std::string>();
}

#define HLITE_INSTANTIATE(Json)                                                         \
  template Json parse_json<Json>(const std::string&, const std::string&);               \
  template const Json& json_member<Json>(const Json&, const char*, const std::string&); \
  template int64_t json_count<Json>(const Json&, const char*, const std::string&);      \
  template std::string json_string<Json>(const Json&, const char*, const std::string&);
HLITE_INSTANTIATE(nlohmann::json)
HLITE_INSTANTIATE(OrderedJson)
#undef HLITE_INSTANTIATE

}  // namespace hlite::checkpoint
