// Lines of text, a few at a time and in any order, to rows of a model's batches: what TextBatches
// does to a file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/preparation/apply/preparation.h"

namespace hlite::prep {

// Belongs to one thread.
class TextRows {
 public:
  // `preparation` must outlive it. Throws DataError or ConfigError where its rows are not those
  // that `config` describes, and what lines() throws.
  TextRows(const Preparation& preparation, const config::DataConfig& config,
           std::span<const int64_t> slot_rows);

  // The batch is valid until the next call. A byte-order mark before the first line is no part of
  // it. Throws DataError "text <i>: ..." if line i is malformed, or has a category without an id
  // and the config's key_policy refuses such.
  const data::HostBatch& rows_of(std::span<const std::string> lines);
  // Categories of those lines that the training rows did not have.
  [[nodiscard]] int64_t unknown() const;

 private:
  const Preparation& preparation_;
  const config::DataConfig config_;
  const data::RawFormat format_;
  std::unique_ptr<const LineParser> parser_;
  data::RawDecoder decoder_;
  ParsedRows rows_;
  EncodedRows records_;
  data::UnknownValues unknown_;
  std::unique_ptr<data::BatchBuffer> buffer_;  // of the largest number of lines so far
};

}  // namespace hlite::prep
