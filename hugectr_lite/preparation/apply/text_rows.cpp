#include "hugectr_lite/preparation/apply/text_rows.h"

#include <algorithm>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

TextRows::TextRows(const Preparation& preparation, const config::DataConfig& config,
                   std::span<const int64_t> slot_rows)
    : preparation_(preparation),
      config_(config),
      format_(preparation.format()),
      decoder_("text", format_, slot_rows, config.key_policy) {
  preparation.check_fits(config, preparation.path());
  parser_ = preparation.lines();
}

const data::HostBatch& TextRows::rows_of(std::span<const std::string> lines) {
  const RowLayout& layout = preparation_.parser().layout();
  const auto n = static_cast<int64_t>(lines.size());
  const auto widest = static_cast<size_t>(std::max({4, layout.dense_bytes, layout.key_bytes}));
  rows_.stride = (static_cast<size_t>(n + 1) * widest + 63) / 64 * 64;
  if (const size_t all = rows_.stride * static_cast<size_t>(layout.arrays());
      rows_.arrays.size() < all)
    rows_.arrays = HostMemory(all, "rows of text");
  rows_.missing.assign(static_cast<size_t>(layout.slots), 0);
  const ColumnArrays arrays(layout, rows_.arrays.data(), rows_.stride, rows_.missing.data());
  for (rows_.rows = 0; rows_.rows < n; ++rows_.rows) {
    std::string_view line = lines[static_cast<size_t>(rows_.rows)];
    if (rows_.rows == 0 && line.starts_with(kByteOrderMark))
      line.remove_prefix(kByteOrderMark.size());
    const LineKind kind = parser_->parse(rows_.rows + 1, line, arrays, rows_.rows);
    if (kind == LineKind::kRow) continue;
    raise<DataError>("text {}: {}", rows_.rows,
                     kind == LineKind::kBad ? parser_->explain(line)
                                            : "expected the columns of a row, found a blank line");
  }
  unknown_ = data::UnknownValues(preparation_.slot_sizes().size());
  records_.bytes.clear();
  preparation_.encode(rows_, records_, unknown_);
  if (!buffer_ || buffer_->batch().labels.dim(0) < n)
    buffer_ = std::make_unique<data::BatchBuffer>(n, config_.label_width(), config_.dense_width(),
                                                  config_.key_layout().columns);
  buffer_->set_size(n);
  buffer_->batch().replaced_keys =
      decoder_.decode({records_.bytes.data(), static_cast<size_t>(n * format_.record_bytes())}, 0,
                      n, buffer_->batch(), 0);
  return buffer_->batch();
}

int64_t TextRows::unknown() const {
  return std::accumulate(unknown_.unknown.begin(), unknown_.unknown.end(), int64_t{0});
}

}  // namespace hlite::prep
