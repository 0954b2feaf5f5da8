// The kind of a file, by its first bytes, its name and its size; raw data, which has no header, is
// what is left when nothing else fits.
#pragma once

#include <cstdint>
#include <string>

namespace hlite::prep {

enum class FileKind {
  kEmpty,
  kCriteoTsv,  // label, 13 integers, 26 tokens
  kText,       // other text, perhaps a table
  kNorm,
  kNormList,
  kNumpy,
  kManifest,
  kConfig,
  kJson,
  kSafetensors,
  kCheckpoint,  // a folder
  kParquet,     // or a folder of such files
  kZip,
  kKeyCounts,  // of a manifest in the same folder
  kBinary,     // nothing of the above: raw data, if anything
};

enum class Compression { kNone, kGzip, kZstd };

// The sureness of a statement: certain (the file says so), likely (its contents look like it), a
// guess.
enum class Sureness { kCertain, kLikely, kGuess };

struct FileFacts {
  std::string path;
  int64_t bytes = 0;
  FileKind kind = FileKind::kBinary;
  Compression compression = Compression::kNone;  // of text: `kind` is what is inside
  Sureness sure = Sureness::kGuess;
  std::string why;      // "every line has 40 columns separated by tabs, ..."
  std::string table;    // kText: "CSV" or "TSV", once it is found to be one
  std::string problem;  // kNorm, kManifest: what is wrong with it, or ""
};

// Throws FileError when it cannot be read.
FileFacts detect_file(const std::string& path);

// "Criteo TSV, gzip", "Norm file", ...
std::string describe(const FileFacts& file);
const char* word(Sureness sure);

}  // namespace hlite::prep
