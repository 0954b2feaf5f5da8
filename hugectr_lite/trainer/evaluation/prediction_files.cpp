#include "hugectr_lite/trainer/evaluation/prediction_files.h"

#include <fmt/format.h>

#include <iterator>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/output_place.h"

namespace hlite::trainer {
namespace {

void write_numbers(const std::string& path, std::span<const float> numbers, int64_t tasks) {
  constexpr size_t kPiece = size_t{1} << 20;
  replace_file(path, [&](const std::string& temporary) {
    WriteFile file(temporary);
    std::string text;
    const auto flush = [&] {
      file.write(std::as_bytes(std::span(text)));
      text.clear();
    };
    for (size_t i = 0; i < numbers.size(); ++i) {
      const bool last = (static_cast<int64_t>(i) + 1) % tasks == 0;
      fmt::format_to(std::back_inserter(text), "{}{}", numbers[i], last ? '\n' : ' ');
      if (text.size() >= kPiece) flush();
    }
    flush();
    file.close();
  });
}

}  // namespace

std::string prediction_file(const std::string& prefix) { return prefix + "prediction"; }
std::string label_file(const std::string& prefix) { return prefix + "label"; }

void write_predictions(const std::string& prefix, std::span<const float> scores,
                       std::span<const float> labels, int64_t tasks) {
  write_numbers(prediction_file(prefix), scores, tasks);
  write_numbers(label_file(prefix), labels, tasks);
}

}  // namespace hlite::trainer
