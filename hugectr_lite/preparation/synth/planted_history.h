// A click model whose probability depends on whether the history knows the target's category.
//
//   logit = bias + w[user] + w[item] + 2.5 * [one of the last max_len events is of the category of
//                                             the target item]
//
// Users are drawn evenly, items by Zipf's law; the category of an item is its rank modulo their
// number. 1 history in 16 is empty, the others have evenly many events up to 5/4 of max_len, of
// which the oldest do not count. Half of those that are not empty have one to three events of the
// category among those that count, at any place, the others none. So the chance is the same for
// all users, items and lengths: without the history it is known what a row's probability is, too.
//
// Everything is a function of (seed, row), as in planted_model.h.
#pragma once

#include <cstdint>
#include <vector>

#include "hugectr_lite/preparation/synth/rank_law.h"

namespace hlite::prep {

struct PlantedHistoryOptions {
  int64_t max_len = 0;
  int64_t users = 1000, items = 2000, categories = 50;
  uint64_t seed = 1;
  double click_rate = 0.25;
};

struct HistoryRow {
  uint32_t user = 0, item = 0;
  std::vector<uint32_t> history;  // items, oldest first; may be longer than max_len
  double logit = 0;               // of the true probability
  double blind_logit = 0;         // of the probability for one who does not know the history
  uint8_t label = 0;
};

class PlantedHistory {
 public:
  // Throws ConfigError naming the option that makes no sense.
  explicit PlantedHistory(const PlantedHistoryOptions& options);

  // Row `index`, into a row that may have been used before.
  void row(uint64_t index, HistoryRow& row) const;
  [[nodiscard]] uint32_t category(uint32_t item) const { return item % categories_; }

 private:
  // What a row is but for its history.
  struct HistoryFacts {
    uint32_t user, item;
    int64_t length;
    bool known;   // the category, to the history
    double base;  // logit without bias of a history that does not know it
    double coin;
  };
  [[nodiscard]] HistoryFacts facts(uint64_t index) const;
  void fill(uint64_t index, const HistoryFacts& facts, std::vector<uint32_t>& history) const;
  void calibrate(double click_rate);

  uint64_t seed_;
  int64_t max_len_, longest_;
  uint32_t users_, items_, categories_;
  RankSampler sampler_;
  std::vector<float> user_weights_, item_weights_;
  double bias_ = 0;
};

}  // namespace hlite::prep
