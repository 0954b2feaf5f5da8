#include "hugectr_lite/preparation/engine/multi_hot.h"

#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/engine/slot_tables.h"

namespace hlite::prep {
namespace {

constexpr std::string_view kDcnv2Name = "dcnv2";
constexpr std::string_view kDcnv2 = "3,2,1,2,6,1,1,1,1,7,3,8,1,6,9,5,1,1,1,12,100,27,10,3,1,1";
// A list has to fit into a batch; what is larger is a slip of the pen.
constexpr int64_t kMaxKeys = 1 << 16;

// Words [0, 2^32) to [0, rows) without favour: the high half of word * rows is uniform once the
// words whose low half lies below 2^32 mod rows are drawn again (D. Lemire, "Fast random integer
// generation in an interval", 2019). Draw j of attempt a is word j + a * hotness of the list.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t table, uint32_t id, uint64_t hotness)
      : seed_(seed), stream_(table << 32 | id), hotness_(hotness) {}

  uint32_t draw(uint64_t j, uint64_t rows, uint32_t rejected_below) {
    for (uint64_t index = j;; index += hotness_) {
      const uint64_t product = word(index) * rows;
      if (static_cast<uint32_t>(product) >= rejected_below)
        return static_cast<uint32_t>(product >> 32);
    }
  }

 private:
  uint64_t word(uint64_t index) {
    if (index / 4 != block_) {
      block_ = index / 4;
      words_ = random::block(seed_, stream_, block_);
    }
    return words_.word[index % 4];
  }

  uint64_t seed_, stream_, hotness_;
  uint64_t block_ = ~uint64_t{0};
  random::Block words_ = {};
};

}  // namespace

std::vector<int64_t> parse_hotness(std::string_view text, int64_t slots) {
  std::vector<int64_t> hotness;
  int64_t keys = 0;
  for (std::string_view rest = text == kDcnv2Name ? kDcnv2 : text;;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const auto value = parse_number<int64_t>(item);
    if (!value || *value < 1 || *value > kMaxKeys)
      raise<ConfigError>(
          "--multi-hot {}: expected \"dcnv2\" or numbers from 1 to {} with commas between them, "
          "found {}",
          in_quotes(text), kMaxKeys, in_quotes(item));
    hotness.push_back(*value);
    keys += *value;
    if (item.size() == rest.size()) break;
    rest.remove_prefix(item.size() + 1);
  }
  if (static_cast<int64_t>(hotness.size()) != slots)
    raise<ConfigError>("--multi-hot {}: expected {} sizes, one a categorical column, found {}",
                       in_quotes(text), slots, hotness.size());
  if (keys > kMaxKeys)
    raise<ConfigError>("--multi-hot {}: expected at most {} keys a row, found {}", in_quotes(text),
                       kMaxKeys, keys);
  return hotness;
}

MultiHot::MultiHot(std::vector<int64_t> hotness, std::vector<int64_t> slot_sizes, uint64_t seed,
                   std::span<const int64_t> slot_tables)
    : hotness_(std::move(hotness)), slot_sizes_(std::move(slot_sizes)), seed_(seed) {
  HLITE_CHECK(hotness_.size() == slot_sizes_.size(), "{} sizes for {} tables", hotness_.size(),
              slot_sizes_.size());
  drawn_as_.resize(hotness_.size());
  for (const auto& slots : slots_of_tables(static_cast<int>(hotness_.size()), slot_tables))
    for (const int slot : slots)
      drawn_as_[static_cast<size_t>(slot)] = static_cast<uint64_t>(slots.front());
  for (size_t t = 0; t < hotness_.size(); ++t) {
    const int64_t rows = slot_sizes_[t];
    HLITE_CHECK(hotness_[t] >= 1 && rows >= 1 && rows <= int64_t{1} << 32, "table {}: {} of {}", t,
                hotness_[t], rows);
    keys_ += hotness_[t];
    rejected_below_.push_back(
        static_cast<uint32_t>((uint64_t{1} << 32) % static_cast<uint64_t>(rows)));
  }
}

void MultiHot::expand(const uint32_t* ids, uint32_t* keys) const {
  for (size_t t = 0; t < hotness_.size(); ++t) {
    const auto hotness = static_cast<uint64_t>(hotness_[t]);
    *keys++ = ids[t];
    if (hotness == 1) continue;
    Draws draws(seed_, drawn_as_[t], ids[t], hotness);
    const auto rows = static_cast<uint64_t>(slot_sizes_[t]);
    for (uint64_t j = 1; j < hotness; ++j) *keys++ = draws.draw(j, rows, rejected_below_[t]);
  }
}

}  // namespace hlite::prep
