#include "hugectr_lite/preparation/engine/block_parser.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::prep {

namespace {
// Lines after one that LineParser::parse_front() stopped at, until it is tried again.
constexpr int kOneByOne = 32;
}  // namespace

BlockParser::BlockParser(const RowLayout& layout, const PrepOptions& options)
    : layout_(layout),
      max_bad_rows_(options.max_bad_rows),
      all_(options.sample >= 1),
      seed_(options.seed),
      below_(static_cast<uint64_t>(options.sample * 0x1p32)),
      negatives_below_(static_cast<uint64_t>(options.negative_share * 0x1p32)),
      train_files_(options.negative_share < 1
                       ? static_cast<size_t>(std::count_if(
                             options.inputs.begin(), options.inputs.end(),
                             [](const PrepInput& input) { return input.role == "train"; }))
                       : 0) {}

bool BlockParser::keeps(size_t file, int64_t line) const {
  static const uint64_t stream = random::stream_of("sample of lines");
  return all_ || random::word(seed_, stream + file, static_cast<uint64_t>(line)) < below_;
}

bool BlockParser::keeps_negative(size_t file, int64_t line) const {
  static const uint64_t stream = random::stream_of("share of negatives");
  return random::word(seed_, stream + file, static_cast<uint64_t>(line)) < negatives_below_;
}

void BlockParser::reserve(int64_t rows, ParsedRows& out) const {
  const auto widest = static_cast<size_t>(std::max({4, layout_.dense_bytes, layout_.key_bytes}));
  const size_t bytes = static_cast<size_t>(rows + ColumnArrays::kRowsBeyond) * widest;
  // Arrays a multiple of 4 KiB apart would fall on the same lines of the cache.
  out.stride = (bytes + 4095) / 4096 * 4096 + 13 * 64;
  const size_t all = out.stride * static_cast<size_t>(layout_.arrays());
  if (out.arrays.size() < all) out.arrays = HostMemory(all + all / 8, "a block of rows");
  out.rows = 0;
  out.bad.clear();
  out.missing.assign(static_cast<size_t>(layout_.slots), 0);
}

void BlockParser::parse(const LineBlock& lines, size_t file, const LineParser& parser,
                        ParsedRows& out) const {
  // More rows than there are lines long enough: a parser writes before it knows.
  reserve(std::min(lines.lines, static_cast<int64_t>(lines.size) / layout_.shortest_row), out);
  const ColumnArrays arrays(layout_, out.arrays.data(), out.stride, out.missing.data());
  const auto kept = [&](int64_t line) { return keeps(file, line); };
  LineBlock::Place place = lines.begin();
  std::string_view line;
  const bool drops = file < train_files_;
  std::vector<int64_t> missing_before;
  for (int one_by_one = 0; std::ssize(out.bad) <= max_bad_rows_; --one_by_one) {
    if (one_by_one == 0 && lines.inner_feeds.empty() && !drops) {
      const ParsedFront front =
          parser.parse_front(place.line, lines.text().substr(place.offset), arrays, out.rows, kept);
      place.offset += front.bytes;
      place.line += front.lines;
      out.rows += front.rows;
      one_by_one = kOneByOne;
    }
    const int64_t number = place.line;
    if (!lines.next(place, line)) break;
    if (!keeps(file, number)) continue;
    if (drops) missing_before = out.missing;
    const LineKind kind = parser.parse(number, line, arrays, out.rows);
    if (kind == LineKind::kRow) {
      if (drops && arrays.label()[out.rows] == 0 && !keeps_negative(file, number)) {
        std::copy(missing_before.begin(), missing_before.end(), out.missing.begin());
        continue;
      }
      HLITE_CHECK(std::ssize(line) + 1 >= layout_.shortest_row, "a row of {} bytes", line.size());
      ++out.rows;
    } else if (kind == LineKind::kBad) {
      out.bad.push_back({number, parser.explain(line)});
    }
  }
}

void BlockParser::begin(const ColumnBlock& block, ParsedRows& out) const {
  reserve(block.rows, out);
}

void BlockParser::finish(const ColumnBlock& block, size_t file, ParsedRows& out) const {
  const bool good = std::all_of(block.columns.begin(), block.columns.end(),
                                [](const ParsedColumn& column) { return column.bad.empty(); });
  if (!all_ || !good || file < train_files_) return keep_good_rows(block, file, out);
  out.rows = block.rows;
  for (size_t slot = 0; slot < out.missing.size(); ++slot) {
    const auto& missing = block.columns[static_cast<size_t>(layout_.first_key()) + slot].missing;
    out.missing[slot] = std::count(missing.begin(), missing.end(), 1);
  }
}

void BlockParser::keep_good_rows(const ColumnBlock& block, size_t file, ParsedRows& out) const {
  const ColumnArrays arrays(layout_, out.arrays.data(), out.stride, out.missing.data());
  // The first bad field of a row is the one that is reported.
  std::map<int64_t, const std::string*> reasons;
  for (const ParsedColumn& column : block.columns)
    for (const BadField& bad : column.bad) reasons.emplace(bad.row, &bad.reason);
  for (int64_t row = 0; row < block.rows && std::ssize(out.bad) <= max_bad_rows_; ++row) {
    const int64_t line = block.first_row + row + 1;
    if (!keeps(file, line)) continue;
    if (const auto bad = reasons.find(row); bad != reasons.end()) {
      out.bad.push_back({line, *bad->second});
      continue;
    }
    if (file < train_files_ && arrays.label()[row] == 0 && !keeps_negative(file, line)) continue;
    for (int c = 0; c < layout_.columns(); ++c) {
      const auto width = static_cast<size_t>(layout_.bytes(c));
      std::byte* const column =
          out.arrays.data() + static_cast<size_t>(layout_.first_array(c)) * out.stride;
      std::memmove(column + static_cast<size_t>(out.rows) * width,
                   column + static_cast<size_t>(row) * width, width);
      const auto& missing = block.columns[static_cast<size_t>(c)].missing;
      if (c >= layout_.first_key() && !missing.empty())
        out.missing[static_cast<size_t>(c - layout_.first_key())] +=
            missing[static_cast<size_t>(row)];
    }
    ++out.rows;
  }
}

}  // namespace hlite::prep
