#include "data_reader/norm_stream.h"

#include "hugectr_lite/core/error.h"

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
        "{}: header: expected {}, as layers[0].check is \"{}\", "
        "found {} (error_check {})",
        path, h.sum ? "no checksums" : "checksums", config.checksums ? "Sum" : "None",
        h.sum ? "some" : "none", h.sum ? 1 : 0);
  check("label_dim", h.label_dim, config.label_dim, "label.label_dim");
  check("dense_dim", h.dense_dim, config.dense_dim, "dense.dense_dim");
  check("slot_num", h.slots, config.key_layout().slots(), "sparse");
}

}  // namespace

NormStream::NormStream(const config::DataConfig& config, const std::string& list,
                       std::span<const int64_t> slot_rows, IssueSink& sink)
    : decoder_(config, slot_rows, sink),
      files_(read_file_list(list), [&](const std::string& path, const NormHeader& header) {
        check_header(config, path, header);
      }) {
  if (samples() == 0)
    raise<DataError>("{}: expected at least one sample, found none in {} files", list,
                     files_.count());
}

bool NormStream::seek(int64_t sample, const std::atomic<bool>* stop) {
  files_.approach(sample);
  while (position() < sample) {
    if (stop != nullptr && *stop) return false;
    const NormFiles::Record record = files_.next(decoder_.most_record_bytes());
    files_.passed(decoder_.skip(record.bytes, record.place));
  }
  return true;
}

void NormStream::decode(int64_t count, HostBatch& batch, int64_t row) {
  HLITE_CHECK(count <= samples() - position(), "{} samples from {} on, of {}", count, position(),
              samples());
  for (int64_t i = 0; i < count; ++i) {
    const NormFiles::Record record = files_.next(decoder_.most_record_bytes());
    files_.passed(decoder_.decode(record.bytes, record.place, batch, row + i));
  }
}

}  // namespace hlite::data
