#include "hugectr_lite/preparation/apply/text_batches.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

namespace {
constexpr int64_t kTextAtOnce = 1 << 20;  // of text; the longest line
constexpr int64_t kRowsAtOnce = 1024;     // decoded by one thread
}  // namespace

TextBatches::TextBatches(const Preparation& preparation, const std::string& path,
                         const config::DataConfig& config, std::span<const int64_t> slot_rows,
                         int64_t batch, ThreadPool& pool)
    : preparation_(preparation),
      format_(preparation.format()),
      path_(path),
      file_(path, preparation.parser().text_form()),
      pool_(pool),
      parser_(preparation.parser().layout(), PrepOptions{}),
      blocks_(static_cast<size_t>(pool.threads())),
      carries_(!preparation.parser().carried_columns().empty()),
      buffer_(batch, config.label_width(), config.dense_width(), config.key_layout().columns) {
  preparation.check_fits(config, path);
  for (int i = 0; i < pool.threads(); ++i)
    decoders_.emplace_back(file_.name(), format_, slot_rows, config.key_policy);
}

void TextBatches::check(const ParsedBlock& block) const {
  if (!block.rows.bad.empty())
    raise<DataError>("{}:{}: {}", file_.name(), block.rows.bad.front().line,
                     block.rows.bad.front().reason);
}

// Reads as many blocks of lines as there are threads.
void TextBatches::fill() {
  records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  size_t filled = 0;
  while (filled < blocks_.size() && !end_) {
    end_ = !file_.next(blocks_[filled].lines, kTextAtOnce);
    filled += end_ ? 0 : 1;
  }
  if (filled == 0) return;
  if (!lines_) lines_ = preparation_.parser().open(file_.name(), blocks_[0].lines.front());
  pool_.run(static_cast<int64_t>(filled), [&](int64_t i, int) {
    ParsedBlock& block = blocks_[static_cast<size_t>(i)];
    parser_.parse(block.lines, 0, *lines_, block.rows);
    block.unknown = data::UnknownValues(preparation_.slot_sizes().size());
    if (!block.rows.bad.empty()) return;
    preparation_.encode(block.rows, block.records, block.unknown);
    block.carried.clear();
    if (!carries_) return;
    block.lines.for_each_row([&](std::string_view line, int64_t number) {
      if (auto text = lines_->carried(number, line)) block.carried.push_back(*std::move(text));
      return true;
    });
  });
  for (size_t i = 0; i < filled; ++i) {
    check(blocks_[i]);
    unknown_.add(blocks_[i].unknown);
    const auto& bytes = blocks_[i].records.bytes;
    records_.insert(records_.end(), bytes.begin(), bytes.end());
    std::move(blocks_[i].carried.begin(), blocks_[i].carried.end(), std::back_inserter(carried_));
  }
}

const data::HostBatch& TextBatches::next() {
  const auto record = static_cast<size_t>(format_.record_bytes());
  const int64_t most = buffer_.batch().labels.dim(0);
  const auto there = [&] { return static_cast<int64_t>((records_.size() - taken_) / record); };
  while (there() < most && !end_) fill();
  const int64_t size = std::min(there(), most);
  buffer_.set_size(size);
  data::HostBatch& batch = buffer_.batch();
  batch.first_sample = samples_;
  const std::span<const std::byte> records = std::span(records_).subspan(taken_);
  std::vector<int64_t> replaced(decoders_.size());
  pool_.run((size + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t task, int worker) {
    const int64_t first = task * kRowsAtOnce, count = std::min(kRowsAtOnce, size - first);
    const auto thread = static_cast<size_t>(worker);
    replaced[thread] += decoders_[thread].decode(
        records.subspan(static_cast<size_t>(first) * record, static_cast<size_t>(count) * record),
        samples_ + first, count, batch, first);
  });
  for (const int64_t n : replaced) batch.replaced_keys += n;
  if (carries_) {
    const auto end = carried_.begin() + static_cast<std::ptrdiff_t>(size);
    handed_out_.assign(std::make_move_iterator(carried_.begin()), std::make_move_iterator(end));
    carried_.erase(carried_.begin(), end);
  }
  taken_ += static_cast<size_t>(size) * record;
  samples_ += size;
  return batch;
}

}  // namespace hlite::prep
