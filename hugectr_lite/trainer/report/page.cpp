#include "hugectr_lite/trainer/report/page.h"

#include "hugectr_lite/trainer/report/page_text.h"  // generated: page.html as kPageText

namespace hlite::trainer {

std::string html_page(const Json& page, std::string_view script) {
  std::string text = std::string(kPageText) + "<script type=\"application/json\" id=\"page\">\n";
  // In JSON "<" stands in strings only. Left as it is, "</script>" in one would end the element.
  for (const char c : page.dump(-1, ' ', false, Json::error_handler_t::replace))
    c == '<' ? text += "\\u003c" : text += c;
  text += "\n</script>\n";
  if (!script.empty()) text.append("<script>").append(script).append("</script>\n");
  return text + "</body></html>\n";
}

}  // namespace hlite::trainer
