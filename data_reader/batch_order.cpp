#include "data_reader/batch_order.h"

#include <numeric>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::data {
namespace {
// Stream of the shuffle among all that is drawn from one seed.
const uint64_t kShuffleStream = random::stream_of("data_reader.shuffle");
}  // namespace

void shuffle_order(uint64_t seed, int64_t epoch, std::span<int64_t> order) {
  std::iota(order.begin(), order.end(), int64_t{0});
  // Fisher-Yates. 64 random bits scaled to [0, i] are biased by less than i / 2^64.
  for (size_t i = order.size(); i-- > 1;) {
    const random::Block b = random::block(seed, kShuffleStream + static_cast<uint64_t>(epoch), i);
    const uint64_t bits = uint64_t{b.word[0]} << 32 | b.word[1];
    __extension__ using Wide = unsigned __int128;
    const auto j = static_cast<size_t>((Wide{bits} * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
}

BatchOrder::BatchOrder(int64_t batches, bool shuffle, uint64_t seed)
    : batches_(batches), shuffle_(shuffle), seed_(seed) {
  HLITE_CHECK(batches >= 1, "{} batches", batches);
}

int64_t BatchOrder::batch_at(int64_t position) {
  const int64_t epoch = position / batches_, index = position % batches_;
  if (!shuffle_) return index;
  const std::lock_guard lock(mutex_);
  if (latest_.number != epoch) {
    std::swap(latest_, other_);
    if (latest_.number != epoch) {
      latest_.order.resize(static_cast<size_t>(batches_));
      shuffle_order(seed_, epoch, latest_.order);
      latest_.number = epoch;
    }
  }
  return latest_.order[static_cast<size_t>(index)];
}

}  // namespace hlite::data
