// Pages of HTML that need nothing but themselves: of a run (html_report.h), of scores (the Python
// package's report.py) and of `serve` (serve/status_page.h). Their one template, page.html, holds
// style and script; the script draws the JSON that a page carries, and makes text of every string.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hlite::trainer {

using Json = nlohmann::json;

// Returns the page of `page`: {"title": text, "body": [node...], "numbers": {name: [event...]}},
// where an event is {"iter": 1, ...}. `script` is further JavaScript. A node is one of
//
//   text
//   ["p.soft", node...]        an element by its tag and classes; {"id": "x"} among the nodes sets
//                              a property
//   ["tiles", [value, name]...]
//   ["table", [name...], [row...], [columns of text]]
//   ["bar", {fill, rest, low, high, mark}]
//   ["chart", {...}, node...]  page.html describes it, at chart()
std::string html_page(const Json& page, std::string_view script = {});

// {"section", {"h2", title}, part...}
template <typename... Parts>
Json section(const char* title, Parts&&... parts) {
  return {"section", {"h2", title}, std::forward<Parts>(parts)...};
}

}  // namespace hlite::trainer
