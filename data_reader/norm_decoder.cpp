#include "data_reader/norm_decoder.h"

#include <cmath>
#include <cstring>

#include "data_reader/no_samples.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {
namespace {

void check_header(const config::DataConfig& config, const std::string& path, const NormHeader& h) {
  const auto check = [&](const char* name, int64_t found, int64_t expected, const char* key) {
    if (found != expected)
      raise<DataError>("{}: header: expected {} {} (layers[0].{}), found {}", path, name, expected,
                       key, found);
  };
  if (h.sum != config.checksums)
    raise<DataError>(
        "{}: header: expected {}, as layers[0].check is \"{}\", found {} (error_check {})", path,
        h.sum ? "no checksums" : "checksums", config.checksums ? "Sum" : "None",
        h.sum ? "some" : "none", h.sum ? 1 : 0);
  check("label_dim", h.label_dim, config.label_width(),
        config.sample_weight ? "label.label_dim, and the sample weight" : "label.label_dim");
  check("dense_dim", h.dense_dim, config.dense_dim, "dense.dense_dim");
  check("slot_num", h.slots, config.key_layout().slots(), "sparse");
}

}  // namespace

NormDecoder::NormDecoder(const config::DataConfig& config, std::span<const int64_t> slot_rows,
                         IssueSink& sink)
    : record_(NormRecordShape::from(config)),
      labels_(LabelRule::from(config)),
      layout_(config.key_layout()),
      key_check_(layout_, slot_rows, config.key_policy, config.global_keys),
      histories_(config),
      sink_(&sink) {}

NormFiles::Record NormDecoder::next(NormFiles& files) const {
  int64_t most = record_.max_bytes();
  for (;;) {
    const NormFiles::Record record = files.next(most);
    const int64_t needed = record_.bytes_needed(record.bytes);
    // With fewer bytes than it was asked for, the file has no more.
    if (needed <= most || std::ssize(record.bytes) < most) return record;
    most = needed;
  }
}

int64_t NormDecoder::decode(std::span<const std::byte> bytes, const RecordPlace& place,
                            HostBatch& batch, int64_t row) const {
  const NormRecordShape& shape = record_.shape();
  HLITE_CHECK(row >= 0 && row < batch.labels.dim(0) && batch.labels.dim(1) == shape.label_width &&
                  batch.dense.dim(1) >= shape.dense_dim && batch.keys.dim(1) == layout_.columns,
              "row {} of {} {} {}", row, batch.labels.shape(), batch.dense.shape(),
              batch.keys.shape());
  return shape.int64_keys ? decode_as<int64_t>(bytes, place, batch, row)
                          : decode_as<uint32_t>(bytes, place, batch, row);
}

template <typename Key>
int64_t NormDecoder::decode_as(std::span<const std::byte> bytes, const RecordPlace& place,
                               HostBatch& batch, int64_t row) const {
  uint32_t* column = batch.keys.row(row);
  int64_t c = 0, first_count = 0;
  return record_.read(
      bytes, place, [&](const std::byte* floats) { copy_floats(floats, place, batch, row); },
      [&](int64_t s, int64_t count, const std::byte* keys) {
        if (const int64_t partner = histories_.partner(s); partner == s)
          first_count = count;
        else if (count != first_count)
          raise<DataError>("{}, {}", text_of(place),
                           HistoryCheck::uneven(fmt::format("slot {}", partner), first_count,
                                                fmt::format("slot {}", s), count));
        const int64_t hotness = layout_.hotness[static_cast<size_t>(s)], next = c + hotness;
        if (count > hotness) {  // a history: the last ones
          keys += (count - hotness) * static_cast<int64_t>(sizeof(Key));
          count = hotness;
        }
        const int64_t end = c + count;
        for (; c < end; ++c, keys += sizeof(Key)) {
          const Key found = load<Key>(keys);
          const uint64_t key = key_check_.local_key(c, static_cast<uint64_t>(found));
          if (key <= key_check_.last_key(c)) {
            column[c] = static_cast<uint32_t>(key);
            continue;
          }
          if (key_check_.replaces()) {
            column[c] = key_check_.replacement(c);
            ++batch.replaced_keys;
          } else {
            report_key(place, c, static_cast<int64_t>(found));
            column[c] = kNoKey;
          }
        }
        for (; c < next; ++c) column[c] = kNoKey;
      });
}

void NormDecoder::copy_floats(const std::byte* from, const RecordPlace& place, HostBatch& batch,
                              int64_t row) const {
  const int64_t label_width = labels_.width(), dense_dim = record_.shape().dense_dim;
  float *labels = batch.labels.row(row), *dense = batch.dense.row(row);
  const auto label_bytes = static_cast<size_t>(4 * label_width),
             dense_bytes = static_cast<size_t>(4 * dense_dim);
  if (label_bytes > 0) std::memcpy(labels, from, label_bytes);
  if (dense_bytes > 0) std::memcpy(dense, from + label_bytes, dense_bytes);
  for (int64_t l = 0; l < label_width; ++l)
    if (!labels_.allows(l, labels[l])) sink_->report({labels_.issue(l), place, l, labels[l]});
  // Subtracting gives NaN exactly for what is not finite.
  bool bad = false;
  for (int64_t d = 0; d < dense_dim; ++d) bad |= dense[d] - dense[d] != 0;
  for (int64_t d = 0; bad && d < dense_dim; ++d)
    if (!std::isfinite(dense[d])) sink_->report({IssueKind::kNotFinite, place, d, dense[d]});
}

void NormDecoder::report_key(const RecordPlace& place, int64_t column, int64_t found) const {
  const int64_t first = key_check_.first_key(column);
  sink_->report({IssueKind::kKey, place, column, found, &layout_, first,
                 first + int64_t{key_check_.last_key(column)}});
}

NormStream::NormStream(const config::DataConfig& config, const std::string& source,
                       std::vector<std::string> files, std::span<const int64_t> slot_rows,
                       IssueSink& sink)
    : decoder_(config, slot_rows, sink),
      files_(std::move(files), [&](const std::string& path, const NormHeader& header) {
        check_header(config, path, header);
      }) {
  if (samples() == 0)
    raise<NoSamplesError>("{}: expected at least one sample, found none in {} files", source,
                          files_.count());
}

bool NormStream::seek(int64_t sample, const std::atomic<bool>* stop) {
  files_.approach(sample);
  while (position() < sample) {
    if (stop != nullptr && *stop) return false;
    const NormFiles::Record record = decoder_.next(files_);
    files_.passed(decoder_.skip(record.bytes, record.place));
  }
  return true;
}

void NormStream::decode(int64_t count, HostBatch& batch, int64_t row) {
  HLITE_CHECK(count <= samples() - position(), "{} samples from {} on, of {}", count, position(),
              samples());
  for (int64_t i = 0; i < count; ++i) {
    const NormFiles::Record record = decoder_.next(files_);
    files_.passed(decoder_.decode(record.bytes, record.place, batch, row + i));
  }
}

}  // namespace hlite::data
