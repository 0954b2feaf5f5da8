// Values of a record that its format or config does not allow, and their receiver (IssueSink): the
// trainer's refuses the file at the first one, data_inspect's counts them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "hugectr_lite/core/key_layout.h"

namespace hlite::data {

// "<path>: record 12 (byte 3456)"
struct RecordPlace {
  const std::string& path;
  int64_t record = 0, byte = 0;  // number in the file; where it begins there
  const char* called = "record";
};
std::string text_of(const RecordPlace& place);

enum class IssueKind { kLabel, kRealLabel, kWeight, kNotFinite, kNegative, kKey };
inline constexpr int kIssueKinds = 6;

struct RecordIssue {
  IssueKind kind;
  const RecordPlace& place;
  int64_t column = 0;  // of the labels, of the dense values (kNotFinite,
                       // kNegative), of the keys
  std::variant<int64_t, float> found;
  // Set for an issue of a key: its column's slot and table.
  const KeyLayout* layout = nullptr;
  int64_t first_key = 0, last_key = 0;
};

// The name of the value, and what is expected of it.
struct IssueWords {
  std::string what, expected;
};
IssueWords words_of(IssueKind kind, int64_t column);  // of all kinds but kKey

// "<path>: sample 12 (byte 1920), key of slot 3: expected less than 50, the rows of its table,
// found 99"
std::string describe(const RecordIssue& issue);

class IssueSink {
 public:
  virtual ~IssueSink() = default;
  // An exception that it throws ends the decoding; when it returns, decoding goes on with the next
  // value.
  virtual void report(const RecordIssue& issue) = 0;
};

// Throws DataError with describe(issue).
IssueSink& refusing_sink();

}  // namespace hlite::data
