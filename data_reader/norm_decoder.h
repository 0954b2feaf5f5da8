// Turns records of Norm files (norm_format.h) into rows of batches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/history_check.h"
#include "data_reader/key_check.h"
#include "data_reader/label_rule.h"
#include "data_reader/norm_files.h"
#include "data_reader/norm_record.h"
#include "data_reader/record_issue.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

class NormDecoder {
 public:
  // `slot_rows`: rows of each slot's table.
  // `sink` receives values outside of their ranges.
  NormDecoder(const config::DataConfig& config, std::span<const int64_t> slot_rows,
              IssueSink& sink = refusing_sink());

  // Bytes of a record with as many keys as the config keeps.
  [[nodiscard]] int64_t max_record_bytes() const { return record_.max_bytes(); }
  // The next record of `files`, with all of its bytes if it is whole.
  [[nodiscard]] NormFiles::Record next(NormFiles& files) const;

  // Decodes the record at the front of `bytes`, which are all of it or all that the file still has,
  // into a row of the batch; slots' columns without a key, or with one that the sink
  // received, get kNoKey. Adds the keys that the policy replaced to batch.replaced_keys. Returns
  // the record's size. Throws DataError as NormRecord::read() does, and as HistoryCheck says.
  int64_t decode(std::span<const std::byte> bytes, const RecordPlace& place, HostBatch& batch,
                 int64_t row) const;
  // The record's size alone. Neither its checksum nor its values are looked at.
  [[nodiscard]] int64_t skip(std::span<const std::byte> bytes, const RecordPlace& place) const {
    return record_.skip(bytes, place);
  }

 private:
  template <typename Key>
  int64_t decode_as(std::span<const std::byte> bytes, const RecordPlace& place, HostBatch& batch,
                    int64_t row) const;
  void copy_floats(const std::byte* from, const RecordPlace& place, HostBatch& batch,
                   int64_t row) const;
  void report_key(const RecordPlace& place, int64_t column, int64_t found) const;

  NormRecord record_;
  LabelRule labels_;
  KeyLayout layout_;
  KeyCheck key_check_;
  HistoryCheck histories_;
  IssueSink* sink_;
};

// The samples of Norm files, decoded as a config says.
class NormStream {
 public:
  // Opens every file once. `source` is for messages. `sink` receives values outside of their
  // ranges. Throws DataError if a file cannot be read, is no Norm file, or has another header than
  // the config says.
  NormStream(const config::DataConfig& config, const std::string& source,
             std::vector<std::string> files, std::span<const int64_t> slot_rows,
             IssueSink& sink = refusing_sink());

  // Samples of all files, as their headers say.
  [[nodiscard]] int64_t samples() const { return files_.records(); }
  // The sample that decode() begins with.
  [[nodiscard]] int64_t position() const { return files_.position(); }
  [[nodiscard]] int64_t bytes_read() const { return files_.bytes_read(); }

  // Goes to a sample in [0, samples()]. Whole files are passed over by their headers, records
  // within a file by their sizes; what lies before the position is read again from its file's
  // start. False when `stop` has become true on the way.
  bool seek(int64_t sample, const std::atomic<bool>* stop = nullptr);
  // Decodes `count` samples into rows [row, row + count) of the batch (see NormDecoder::decode).
  // Throws DataError also when a file ends before or continues after its last record.
  void decode(int64_t count, HostBatch& batch, int64_t row);

 private:
  NormDecoder decoder_;
  NormFiles files_;
};

}  // namespace hlite::data
