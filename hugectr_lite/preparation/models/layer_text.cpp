#include "hugectr_lite/preparation/models/layer_text.h"

#include <fmt/ranges.h>

namespace hlite::prep {

std::string quoted(const TensorNames& names) {
  return fmt::format(R"("{}")", fmt::join(names, R"(", ")"));
}

void LayerText::inner_product(const std::string& bottom, const std::string& top, int64_t width,
                              const char* more) {
  add(R"("type": "InnerProduct", "bottom": "{}", "top": "{}", "fc_param": {{"num_output": {}{}}})",
      bottom, top, width, more);
}

void LayerText::dropout(const std::string& bottom, const std::string& top, double rate) {
  add(R"("type": "Dropout", "bottom": "{}", "top": "{}", "rate": {})", bottom, top, rate);
}

void LayerText::reshape(const std::string& bottom, const std::string& top, int64_t width) {
  add(R"("type": "Reshape", "bottom": "{}", "top": "{}", "leading_dim": {})", bottom, top, width);
}

void LayerText::reshape(const std::string& bottom, const std::string& top, int64_t time_step,
                        int64_t width) {
  add(R"("type": "Reshape", "bottom": "{}", "top": "{}", "time_step": {}, "leading_dim": {})",
      bottom, top, time_step, width);
}

void LayerText::join(const char* type, const TensorNames& bottoms, const std::string& top) {
  add(R"("type": "{}", "bottom": [{}], "top": "{}")", type, quoted(bottoms), top);
}

void LayerText::plain(const char* type, const std::string& bottom, const std::string& top) {
  add(R"("type": "{}", "bottom": "{}", "top": "{}")", type, bottom, top);
}

}  // namespace hlite::prep
