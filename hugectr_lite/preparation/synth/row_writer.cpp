#include "hugectr_lite/preparation/synth/row_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hlite::prep {
namespace {

constexpr int64_t kRowsAtOnce = 4096;

struct DrawnWindow {
  explicit DrawnWindow(size_t n) : pieces(n) {}
  std::vector<DrawnRows> pieces;
  int64_t used = 0;
};

}  // namespace

SynthScores scores_of(const LogitHistogram& histogram, int64_t rows, double loss) {
  SynthScores scores;
  scores.rows = rows;
  if (rows == 0) return scores;
  const auto n = static_cast<double>(rows);
  const double rate = scores.label_rate = static_cast<double>(histogram.positives()) / n;
  scores.bayes_auc = histogram.area_under_curve();
  scores.bayes_log_loss = loss / n;
  if (rate > 0 && rate < 1) {
    scores.base_log_loss = -(rate * std::log(rate) + (1 - rate) * std::log(1 - rate));
  }
  return scores;
}

RowWriter::Losses RowWriter::write(int64_t rows,
                                   FunctionRef<void(int64_t, int64_t, int, DrawnRows&)> draw,
                                   OutputFile& file) {
  const auto pieces = static_cast<int64_t>(pool_.threads()) * 4;
  DrawnWindow window(static_cast<size_t>(pieces)), before(static_cast<size_t>(pieces));
  Losses losses;
  for (int64_t at = 0; at < rows || before.used > 0;) {
    window.used = std::min(pieces, (rows - at + kRowsAtOnce - 1) / kRowsAtOnce);
    pool_.run(window.used + 1, [&](int64_t task, int worker) {
      if (task == 0) {
        for (int64_t i = 0; i < before.used; ++i)
          file.write(before.pieces[static_cast<size_t>(i)].bytes);
        return;
      }
      DrawnRows& piece = window.pieces[static_cast<size_t>(task - 1)];
      piece.bytes.clear();
      piece.loss = piece.other_loss = 0;
      const int64_t begin = at + (task - 1) * kRowsAtOnce;
      draw(begin, std::min(kRowsAtOnce, rows - begin), worker, piece);
    });
    // Adds in the order of the rows.
    for (int64_t i = 0; i < window.used; ++i) {
      losses.loss += window.pieces[static_cast<size_t>(i)].loss;
      losses.other_loss += window.pieces[static_cast<size_t>(i)].other_loss;
    }
    const int64_t drawn = std::min(window.used * kRowsAtOnce, rows - at);
    at += drawn;
    progress_.advance(drawn);
    std::swap(window, before);
  }
  return losses;
}

}  // namespace hlite::prep
