#include "hugectr_lite/preparation/csv/row_split.h"

#include <numeric>
#include <utility>

#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

namespace hlite::prep {

namespace {

// Of the draws of each training file.
uint64_t stream_of_file(size_t file) {
  static const uint64_t stream = random::stream_of("split of lines");
  return stream + file;
}

uint32_t draw_of_group(uint64_t seed, std::string_view value) {
  static const uint64_t stream = random::stream_of("split of groups");
  return random::word(seed, stream, token_key(value));
}

}  // namespace

// Fisher and Yates' shuffle of a block's folds, of which the line has one.
int64_t RowSplit::fold_of_line(size_t file, int64_t line) const {
  const auto block = static_cast<uint64_t>(line / folds);
  std::vector<int64_t> order(static_cast<size_t>(folds));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = folds - 1; i > 0; --i) {
    const auto element = block * static_cast<uint64_t>(folds) + static_cast<uint64_t>(i);
    const uint64_t draw = random::word(seed, stream_of_file(file), element);
    std::swap(order[static_cast<size_t>(i)],
              order[static_cast<size_t>(draw * static_cast<uint64_t>(i + 1) >> 32)]);
  }
  return order[static_cast<size_t>(line % folds)];
}

int64_t RowSplit::fold_of_group(std::string_view value) const {
  return static_cast<int64_t>(uint64_t{draw_of_group(seed, value)} * static_cast<uint64_t>(folds) >>
                              32);
}

SplitPart RowSplit::part_of_draw(uint32_t draw) const {
  const double x = draw * 0x1p-32;
  return x < test ? SplitPart::kTest : x < test + val ? SplitPart::kVal : SplitPart::kTrain;
}

SplitPart RowSplit::part_of_line(size_t file, int64_t line) const {
  if (folds > 0) return fold_of_line(file, line) == fold ? SplitPart::kVal : SplitPart::kTrain;
  return part_of_draw(random::word(seed, stream_of_file(file), static_cast<uint64_t>(line)));
}

std::optional<SplitPart> RowSplit::part_of_value(std::string_view value) const {
  if (kind == Kind::kTime) {
    const auto key = time_key(value, form);
    if (!key) return std::nullopt;
    return *key >= test_from  ? SplitPart::kTest
           : *key >= val_from ? SplitPart::kVal
                              : SplitPart::kTrain;
  }
  if (folds > 0) return fold_of_group(value) == fold ? SplitPart::kVal : SplitPart::kTrain;
  return part_of_draw(draw_of_group(seed, value));
}

}  // namespace hlite::prep
