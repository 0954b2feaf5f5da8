#include "hugectr_lite/preparation/engine/prep_state.h"

#include <sys/stat.h>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"

namespace hlite::prep {

using config::JsonNode;
using nlohmann::ordered_json;

namespace {

template <typename State, typename Visit>
void for_each_value(State& state, Visit&& visit) {
  visit("keys", state.keys);
  visit("zeros", state.zeros);
  visit("known", state.known);
  visit("zero_ids", state.zero_ids);
  visit("train_rows", state.train_rows);
  visit("positives", state.positives);
}

std::string text_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

ordered_json PrepState::to_json() const {
  ordered_json json;
  json["run"] = run;
  ordered_json& p = json["parse"];
  p = {{"done", parse.done},
       {"rows", parse.rows},
       {"missing", parse.missing},
       {"first_lines", parse.first_lines},
       {"sources", ordered_json::array()}};
  for (const auto& source : parse.sources) p["sources"].push_back(source.to_json());
  json["by_columns"] = by_columns;
  if (one_pass)
    for_each_value(*one_pass,
                   [&](const char* name, auto& value) { json["one_pass"][name] = value; });
  if (!fitted.is_null()) json["fitted"] = fitted;
  json["columns"] = ordered_json::object();
  for (const auto& [slot, column] : columns)
    json["columns"][std::to_string(slot)] = column.to_json();
  return json;
}

PrepState PrepState::from_json(const ordered_json& json, const std::string& where) {
  try {
    PrepState state;
    state.run = json.at("run");
    const ordered_json& p = json.at("parse");
    p.at("done").get_to(state.parse.done);
    p.at("rows").get_to(state.parse.rows);
    p.at("missing").get_to(state.parse.missing);
    p.at("first_lines").get_to(state.parse.first_lines);
    for (const auto& source : p.at("sources"))
      state.parse.sources.push_back(
          config::read_block<data::ManifestSource>(JsonNode::parse(source.dump(), where)));
    json.at("by_columns").get_to(state.by_columns);
    if (json.contains("one_pass"))
      for_each_value(state.one_pass.emplace(), [&](const char* name, auto& value) {
        json.at("one_pass").at(name).get_to(value);
      });
    if (json.contains("fitted")) state.fitted = json.at("fitted");
    for (const auto& [slot, column] : json.at("columns").items())
      state.columns[std::stoi(slot)] =
          config::read_block<data::ManifestColumn>(JsonNode::parse(column.dump(), where));
    return state;
  } catch (const std::exception& error) {
    raise<DataError>("{}: expected the state of an unfinished run, found {}; --restart forgets it",
                     where, error.what());
  }
}

ordered_json describe_run(const PrepOptions& options) {
  ordered_json run;
  run["version"] = kVersion;
  run["options"] = ordered_json::parse(options.identity);
  run["options"]["sample"] = options.sample;
  if (options.negative_share < 1) run["options"]["negative_share"] = options.negative_share;
  run["options"]["sample_seed"] = options.seed;
  run["inputs"] = ordered_json::array();
  for (const PrepInput& input : options.inputs) {
    ordered_json entry = {{"path", input.path}, {"role", input.role}};
    struct stat status {};
    // A file that is not there is reported when it is opened.
    if (input.path != "-" && ::stat(input.path.c_str(), &status) == 0) {
      entry["bytes"] = static_cast<int64_t>(status.st_size);
      entry["changed"] = fmt::format("{}.{:09}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    }
    run["inputs"].push_back(entry);
  }
  return run;
}

std::string difference(const ordered_json& then, const ordered_json& now) {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  const auto compare = [&](const std::string& name, const ordered_json& a, const ordered_json& b) {
    if (a != b) add(fmt::format("{}: {} then, {} now", name, text_of(a), text_of(b)));
  };
  const auto member = [](const ordered_json& json, const std::string& key) {
    return json.contains(key) ? json.at(key) : ordered_json();
  };
  compare("version", member(then, "version"), member(now, "version"));
  const ordered_json a = member(then, "options"), b = member(now, "options");
  for (const auto& [key, value] : b.items()) compare(key, member(a, key), value);
  for (const auto& [key, value] : a.items())
    if (!b.contains(key)) compare(key, value, ordered_json());
  const ordered_json files = member(then, "inputs"), files_now = member(now, "inputs");
  for (size_t i = 0; i < std::max(files.size(), files_now.size()); ++i) {
    const ordered_json old_file = i < files.size() ? files[i] : ordered_json();
    const ordered_json new_file = i < files_now.size() ? files_now[i] : ordered_json();
    if (old_file == new_file) continue;
    if (member(old_file, "path") == member(new_file, "path") &&
        member(old_file, "role") == member(new_file, "role")) {
      add(fmt::format("{} has changed", new_file.at("path").get<std::string>()));
    } else {
      compare(fmt::format("input {}", i + 1), member(old_file, "path"), member(new_file, "path"));
      compare(fmt::format("role of input {}", i + 1), member(old_file, "role"),
              member(new_file, "role"));
    }
  }
  return text;
}

}  // namespace hlite::prep
