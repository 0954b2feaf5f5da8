// A pairwise covering array: few rows, each with a choice for every option, in which every pair of
// choices of two options occurs that may occur (D. M. Cohen, S. R. Dalal, M. L. Fredman, G. C.
// Patton, "The AETG system", 1997).
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace hlite::test {

// A choice of an option, both as indices.
struct Chosen {
  int option, choice;
  auto operator<=>(const Chosen&) const = default;
};
using ChosenPair = std::pair<Chosen, Chosen>;  // the smaller option first
using ArrayRow = std::vector<int>;             // a choice for each option

class CoveringArray {
 public:
  // `sizes`: choices of each option. `refused`: pairs that no row may have.
  CoveringArray(std::vector<int> sizes, std::set<ChosenPair> refused)
      : sizes_(std::move(sizes)), refused_(std::move(refused)) {}

  // The row with these choices, which may refuse each other, and of every other option the first
  // one that may go with them.
  [[nodiscard]] std::optional<ArrayRow> plainest(const std::vector<Chosen>& pinned) const {
    return complete(pinned, [](const ArrayRow&, Chosen of) { return -of.choice; });
  }

  [[nodiscard]] std::vector<ArrayRow> rows() const {
    std::set<ChosenPair> open = pairs();
    std::vector<ArrayRow> rows;
    while (!open.empty()) {
      const ChosenPair first = *open.begin();
      const auto row =
          complete({first.first, first.second}, [&](const ArrayRow& so_far, Chosen of) {
            int added = 0;
            for (int i = 0; i < std::ssize(so_far); ++i)
              if (so_far[static_cast<size_t>(i)] >= 0)
                added += open.contains(ordered({i, so_far[static_cast<size_t>(i)]}, of));
            return added;
          });
      open.erase(first);  // also where other pairs exclude it
      if (!row) continue;
      for (const ChosenPair& pair : pairs_of(*row)) open.erase(pair);
      rows.push_back(*row);
    }
    return rows;
  }

  [[nodiscard]] static std::vector<ChosenPair> pairs_of(const ArrayRow& row) {
    std::vector<ChosenPair> pairs;
    for (int a = 0; a < std::ssize(row); ++a)
      for (int b = a + 1; b < std::ssize(row); ++b)
        pairs.push_back({{a, row[static_cast<size_t>(a)]}, {b, row[static_cast<size_t>(b)]}});
    return pairs;
  }

 private:
  using Score = std::function<int(const ArrayRow& so_far, Chosen of)>;

  [[nodiscard]] static ChosenPair ordered(Chosen a, Chosen b) {
    return a.option < b.option ? ChosenPair{a, b} : ChosenPair{b, a};
  }
  [[nodiscard]] bool fits(const ArrayRow& row, Chosen of) const {
    for (int i = 0; i < std::ssize(row); ++i)
      if (const int choice = row[static_cast<size_t>(i)];
          i != of.option && choice >= 0 && refused_.contains(ordered({i, choice}, of)))
        return false;
    return true;
  }
  [[nodiscard]] std::set<ChosenPair> pairs() const {
    std::set<ChosenPair> all;
    for (int a = 0; a < std::ssize(sizes_); ++a)
      for (int b = a + 1; b < std::ssize(sizes_); ++b)
        for (int i = 0; i < sizes_[static_cast<size_t>(a)]; ++i)
          for (int j = 0; j < sizes_[static_cast<size_t>(b)]; ++j)
            if (!refused_.contains({{a, i}, {b, j}})) all.insert({{a, i}, {b, j}});
    return all;
  }
  [[nodiscard]] std::vector<int> choices_left(const ArrayRow& row, int option) const {
    std::vector<int> left;
    for (int choice = 0; choice < sizes_[static_cast<size_t>(option)]; ++choice)
      if (fits(row, {option, choice})) left.push_back(choice);
    return left;
  }
  [[nodiscard]] std::optional<ArrayRow> complete(const std::vector<Chosen>& pinned,
                                                 const Score& score) const {
    ArrayRow row(sizes_.size(), -1);
    for (const Chosen& of : pinned) row[static_cast<size_t>(of.option)] = of.choice;
    return fill(row, score) ? std::optional(row) : std::nullopt;
  }
  // The option with the fewest choices left comes next; what leads nowhere is taken back.
  bool fill(ArrayRow& row, const Score& score) const {
    int next = -1;
    std::vector<int> choices;
    for (int option = 0; option < std::ssize(row); ++option) {
      if (row[static_cast<size_t>(option)] >= 0) continue;
      std::vector<int> left = choices_left(row, option);
      if (next >= 0 && left.size() >= choices.size()) continue;
      next = option;
      choices = std::move(left);
    }
    if (next < 0) return true;
    std::vector<std::pair<int, int>> best;
    for (const int choice : choices) best.emplace_back(-score(row, {next, choice}), choice);
    std::sort(best.begin(), best.end());
    for (const auto& [minus_score, choice] : best) {
      row[static_cast<size_t>(next)] = choice;
      if (fill(row, score)) return true;
    }
    row[static_cast<size_t>(next)] = -1;
    return false;
  }

  const std::vector<int> sizes_;
  const std::set<ChosenPair> refused_;
};

}  // namespace hlite::test
