// The text of every category, in the order of the ids: a trained model cannot be fed without it.
//
// The preparation engine keeps hashes of categories only. A second pass over the training files
// finds the texts: ids are in order of first appearance, so the category that a column waits for is
// met before the next one, and each text is written as it is found,
// whatever the number of categories.
//
// <out>/vocabulary/<slot>_<name>.txt, of the first slot that has the vocabulary: line n is the
// category with id n (id 0 has none), with \\ for a backslash, \r for a carriage return and \n for
// a line feed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

struct Vocabulary {
  std::unique_ptr<OutputFile> file;  // finished
  std::string name;                  // "vocabulary/00_city.txt"
  int64_t categories = 0;
  std::vector<std::string> if_small;  // all texts of at most kSmall of them
  static constexpr int64_t kSmall = 1000;
};

// `continued`: the vocabularies that these begin with, one of each column, or none.
// `keys_of_ids`: of each table (CsvSchema::slot_tables()), uint64 an id, that of id 0 unused.
// Returns the vocabulary of each table. `block_bytes`: the longest line. Throws what reading
// throws; DataError when a category is not there any more: the files have changed; Interrupted.
std::vector<Vocabulary> write_vocabularies(const std::vector<std::string>& train,
                                           const CsvSchema& schema,
                                           std::vector<ReadFile> keys_of_ids,
                                           const std::string& folder, size_t block_bytes,
                                           ThreadPool& pool,
                                           const std::vector<std::string>& continued = {});

}  // namespace hlite::prep
