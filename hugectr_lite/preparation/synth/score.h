// Scores of predictions, in double precision: what a generator knows about its own labels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace hlite::prep {

// The expected AUC of the scores p when row i's label is 1 with probability p[i]; sorts p.
double expected_area_under_curve(std::vector<double> p);

// -log of the probability that `logit` gives to the label.
double logit_loss(double logit, bool label);

// The AUC of any number of rows in fixed memory (16 MiB): labels counted in 2^20 bins of equal
// width over logits in [-16, 16), what lies outside in the outermost bins. Rows of one bin count as
// ties, half right; the result is the same in whatever order and from however many threads rows are
// added.
class LogitHistogram {
 public:
  LogitHistogram();
  // Any thread.
  void add(double logit, bool label);
  // Once all are added.
  [[nodiscard]] int64_t positives() const;
  // 0.5 when one of the classes is empty.
  [[nodiscard]] double area_under_curve() const;

 private:
  struct Bin {
    std::atomic<int64_t> count[2];  // by label
  };
  std::unique_ptr<Bin[]> bins_;
};

}  // namespace hlite::prep
