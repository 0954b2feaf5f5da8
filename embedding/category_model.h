// Which categories are frequent (a copy on every rank) and on which rank each other one lives.
//
// The numbering is HugeCTR 3.1's, so that its published vectors hold:
//   frequent    the `frequent` first categories by count, their number rounded up to a multiple of
//               the ranks (one multiple less when there are not so many categories). The category
//               at place p by count belongs to instance p mod ranks; indices run by instance, then
//               table, then count.
//   infrequent  the k-th of the others, in ascending order, is row k / ranks of rank k mod ranks.
//
// There an array of 8 bytes a category says where it is: 1.5 GB for 188 M categories. Here the
// frequent ones are marked in a bitmap with running counts, 1.5 bits a category: the k of an
// infrequent category is the category less the number of frequent ones before it.
#pragma once

#include <cstdint>
#include <vector>

#include "embedding/frequency.h"
#include "embedding/row_place.h"
#include "embedding/slot_layout.h"

namespace hlite::embedding {

class CategoryModel {
 public:
  // A model without frequent categories.
  CategoryModel(const SlotLayout& layout, int ranks);
  // `threshold`: frequent_threshold(). Throws ConfigError when more than `max_frequent` categories
  // reach it.
  CategoryModel(const SlotLayout& layout, int ranks, const FrequencyStatistics& statistics,
                double threshold, int64_t max_frequent);

  // Returns the place of a category: `rank` < 0 for a frequent one, whose index among the frequent
  // is `row`.
  [[nodiscard]] RowPlace locate(int64_t category) const { return ref().locate(category); }
  // The arrays that say so, in this model's memory.
  [[nodiscard]] CategoriesRef ref() const {
    return {bits_.data(), before_.data(), index_.data(), ranks_};
  }
  // Elements of ref()'s bits, as of its counts.
  [[nodiscard]] size_t words() const { return bits_.size(); }

  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_); }
  [[nodiscard]] int64_t categories() const { return categories_; }
  // The frequent ones by index.
  [[nodiscard]] const std::vector<int64_t>& frequent() const { return frequent_; }
  // Share of all counted lookups that go to frequent categories.
  [[nodiscard]] double frequent_share() const { return frequent_share_; }
  // Rows that rank `rank` holds.
  [[nodiscard]] int64_t infrequent_rows(int rank) const;
  // The category in row `row` of rank `rank`.
  [[nodiscard]] int64_t infrequent_category(int rank, int64_t row) const;

 private:
  [[nodiscard]] int64_t frequent_below(int64_t category) const;
  void mark(const std::vector<int64_t>& by_count);

  const std::vector<int64_t> table_begin_;  // [tables + 1]
  uint64_t ranks_;
  int64_t categories_;
  double frequent_share_ = 0;
  std::vector<uint64_t> bits_;    // 1: frequent
  std::vector<uint32_t> before_;  // frequent categories before each word
  std::vector<uint32_t> index_;   // of the frequent categories in ascending order
  std::vector<int64_t> frequent_;
};

}  // namespace hlite::embedding
