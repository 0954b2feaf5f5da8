#include "hugectr_lite/serve/text_request.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace hlite::serve {

InferRequest parse_lines(const std::string& body, const ModelDescription& model) {
  const auto spec = std::find_if(model.inputs.begin(), model.inputs.end(),
                                 [](const TensorSpec& input) { return input.name == "text"; });
  if (spec == model.inputs.end())
    refuse(
        "model \"{}\": expected a checkpoint with its preparation (train --with-preparation), "
        "which says what lines of text mean, found none",
        model.name);
  check_samples(std::count(body.begin(), body.end(), '\n') + !body.ends_with('\n'), model);
  InputTensor text;
  text.spec = &*spec;
  for (std::string_view rest = body; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    text.texts.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (text.texts.empty()) refuse("request: expected lines of text, found an empty body");
  text.shape = {std::ssize(text.texts), 1};
  InferRequest request;
  request.inputs.push_back(std::move(text));
  return request;
}

std::string scores_as_lines(std::span<const float> scores, int64_t tasks) {
  std::string text;
  for (size_t i = 0; i < scores.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", scores[i],
                   (i + 1) % static_cast<size_t>(tasks) == 0 ? '\n' : ',');
  return text;
}

}  // namespace hlite::serve
