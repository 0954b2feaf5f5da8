// Formats of data files: what a config has to know of each. What reads them is a RecordFormat
// (data_reader/record_format.h).
#pragma once

#include <string_view>
#include <vector>

namespace hlite::config {

class Block;
struct DataConfig;

struct DataFormat {
  const char* name;           // "RawAsync", as a config has it
  const char* files;          // "raw data": what a source is
  const char* ending;         // of the files in a folder that is followed
  const char* prepared = "";  // the format's name in a manifest; "": no preparation writes it
  // Every record has one number for each label and feature, and a fixed number of keys.
  bool fixed_records = false;
  bool shuffles = false;       // batches can be read in any order
  bool checksums = false;      // "check" has to say whether there are any
  bool named_columns = false;  // "columns" may say which are what
  bool tokens = false;         // keys are hashes of tokens, numbers are integers
  // The dialect's RawAsync: num_samples may be more than the files have, and slot_size_array
  // another than the embedding's.
  bool lenient = false;
  // Checks what records of the format leave no choice about.
  void (*check)(const Block& layer, const DataConfig& data) = nullptr;
};

// All, in the order in which messages list them.
std::vector<const DataFormat*>& data_formats();
// REQUIRES a name of one of them.
const DataFormat& data_format(std::string_view name);

}  // namespace hlite::config
