#include "hugectr_lite/preparation/inspect/file_kind.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "data_reader/criteo/criteo_record.h"
#include "data_reader/manifest.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {
namespace {

constexpr size_t kHead = 1 << 16;

bool is_text(std::string_view head) {
  size_t odd = 0;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return false;
    odd += byte < 0x20 && c != '\n' && c != '\t' && c != '\r';
  }
  return !head.empty() && odd * 100 <= head.size();
}

// The whole lines of the head; of a short file also a last line without a line feed.
std::vector<std::string_view> lines_of(std::string_view head, bool whole) {
  std::vector<std::string_view> lines;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    if (end == std::string_view::npos && !whole) break;
    std::string_view line = head.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
  }
  return lines;
}

// Norm's header without its checks: for files whose header is damaged.
bool resembles_norm(std::string_view head, int64_t bytes) {
  int32_t frame = 0;
  if (head.size() < 69) return false;
  std::memcpy(&frame, head.data(), sizeof(frame));
  int64_t words[8];
  std::memcpy(words, head.data() + (frame == data::NormHeader::kBytes ? 4 : 0), sizeof(words));
  const auto small = [](int64_t x, int64_t least, int64_t most) { return x >= least && x <= most; };
  return small(words[0], 0, 1) && small(words[1], 1, bytes * 1000) && small(words[2], 1, 64) &&
         small(words[3], 0, 1 << 20) && small(words[4], 1, 1 << 20) && words[5] == 0 &&
         words[6] == 0 && words[7] == 0;
}

void detect_norm(std::string_view head, FileFacts& file) {
  try {
    const data::NormHeader header = data::read_norm_header(ReadFile(file.path));
    // Raw data may begin like a header without a frame;
    // that its numbers fit is too much of a chance.
    file.kind = FileKind::kNorm;
    file.sure = header.sum ? Sureness::kCertain : Sureness::kLikely;
    file.why = header.sum ? "it begins with a framed Norm header whose checksum is right"
                          : "its first 64 bytes are a Norm header that fits its size";
  } catch (const FileError&) {
    throw;
  } catch (const DataError& error) {
    if (!resembles_norm(head, file.bytes)) return;
    file.kind = FileKind::kNorm;
    file.sure = Sureness::kLikely;
    file.why = "its first bytes are a Norm header";
    file.problem = error.what();
  }
}

bool is_norm_list(const std::vector<std::string_view>& lines) {
  if (lines.empty() || lines[0].empty() || lines[0].size() > 9) return false;
  if (lines[0].find_first_not_of("0123456789") != std::string_view::npos) return false;
  // Paths: at least one of the next lines is none of a table's.
  return lines.size() == 1 ||
         (!lines[1].empty() && lines[1].find_first_of("\t,;") == std::string_view::npos &&
          lines[1].find_first_not_of("0123456789.-") != std::string_view::npos);
}

// Text that begins with a brace.
void detect_json(std::string_view head, FileFacts& file) {
  const bool wide = head.find("\"slot_size_array\"") != std::string_view::npos;
  file.kind = wide && head.find("hugectr_lite") != std::string_view::npos ? FileKind::kManifest
              : head.find("\"layers\"") != std::string_view::npos         ? FileKind::kConfig
                                                                          : FileKind::kJson;
  file.why = "it begins with a brace and has the keys of one";
  if (file.kind != FileKind::kManifest) return;
  try {
    data::Manifest::read(file.path);
    file.sure = Sureness::kCertain;
  } catch (const Error& error) {
    file.problem = error.what();
  }
}

void detect_text(const std::string& head, bool whole, FileFacts& file) {
  const std::vector<std::string_view> lines = lines_of(head, whole);
  file.sure = Sureness::kLikely;
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && head[first] == '{' &&
      file.compression == Compression::kNone) {
    return detect_json(head, file);
  }
  const auto good = std::count_if(lines.begin(), lines.end(), [](std::string_view line) {
    uint32_t record[criteo::kColumns];
    return criteo::parse(line, 0, record);
  });
  if (good * 10 >= static_cast<int64_t>(lines.size()) * 9 && good > 0) {
    file.kind = FileKind::kCriteoTsv;
    file.why = fmt::format("{} of its first {} lines are a label, 13 integers and 26 tokens", good,
                           lines.size());
    return;
  }
  if (is_norm_list(lines)) {
    const bool parquet = lines.size() > 1 && lines[1].ends_with(".parquet");
    file.kind = parquet ? FileKind::kParquet : FileKind::kNormList;
    file.why = "its first line is a number, the others are paths";
    return;
  }
  file.kind = FileKind::kText;
  file.why = "it is text";
}

bool begins(std::string_view head, std::string_view magic) {
  return head.compare(0, magic.size(), magic) == 0;
}

// Finds what the first bytes say for certain.
bool detect_magic(std::string_view head, FileFacts& file) {
  const auto certain = [&](FileKind kind, const char* why) {
    file.kind = kind;
    file.sure = Sureness::kCertain;
    file.why = why;
    return true;
  };
  if (begins(head, "\x93NUMPY")) return certain(FileKind::kNumpy, "it begins as NumPy arrays do");
  if (begins(head, "PAR1")) return certain(FileKind::kParquet, "it begins with PAR1");
  if (begins(head, "PK\x03\x04")) return certain(FileKind::kZip, "it begins as zip archives do");
  if (head.size() > 10 && head[8] == '{' && head[9] == '"') {
    uint64_t length = 0;
    std::memcpy(&length, head.data(), sizeof(length));
    if (length < static_cast<uint64_t>(file.bytes)) {
      return certain(FileKind::kSafetensors, "it begins with a length and JSON of that length");
    }
  }
  if (data::is_key_counts(file.path)) {
    return certain(FileKind::kKeyCounts, "the manifest in its folder says so");
  }
  return false;
}

void detect_folder(FileFacts& file) {
  namespace fs = std::filesystem;
  for (const auto& entry : fs::directory_iterator(file.path)) {
    const std::string name = entry.path().extension().string();
    if (name != ".safetensors" && name != ".parquet") continue;
    file.kind = name == ".parquet" ? FileKind::kParquet : FileKind::kCheckpoint;
    file.sure = Sureness::kLikely;
    file.why = "a folder with " + entry.path().filename().string();
    return;
  }
  raise<FileError>("{}: expected a file, found a folder with neither *.parquet nor a checkpoint",
                   file.path);
}

}  // namespace

FileFacts detect_file(const std::string& path) {
  FileFacts file;
  file.path = path;
  if (std::filesystem::is_directory(path)) {
    detect_folder(file);
    return file;
  }
  const ReadFile source(path);
  file.bytes = source.size();
  if (file.bytes == 0) {
    file.kind = FileKind::kEmpty;
    file.sure = Sureness::kCertain;
    file.why = "it has no bytes";
    return file;
  }
  std::string head(std::min<size_t>(kHead, static_cast<size_t>(file.bytes)), '\0');
  source.read(0, std::as_writable_bytes(std::span(head)));
  bool whole = head.size() == static_cast<size_t>(file.bytes);
  if (detect_magic(head, file)) return file;
  if (begins(head, "\x1f\x8b") || begins(head, "\x28\xb5\x2f\xfd")) {
    file.compression = begins(head, "\x1f\x8b") ? Compression::kGzip : Compression::kZstd;
    std::string inside(kHead, '\0');
    inside.resize(open_input_stream(path)->read(inside.data(), inside.size()));
    head = std::move(inside);
    whole = head.size() < kHead;
  }
  if (is_text(head)) {
    detect_text(head, whole, file);
    return file;
  }
  file.why = "nothing at its start says what it is";
  if (file.compression == Compression::kNone) detect_norm(head, file);
  return file;
}

const char* word(Sureness sure) {
  return sure == Sureness::kCertain ? "certain" : sure == Sureness::kLikely ? "likely" : "a guess";
}

std::string describe(const FileFacts& file) {
  static constexpr std::pair<FileKind, const char*> kNames[] = {
      {FileKind::kEmpty, "empty file"},
      {FileKind::kCriteoTsv, "Criteo TSV"},
      {FileKind::kText, "text file"},
      {FileKind::kNorm, "Norm file"},
      {FileKind::kNormList, "Norm file list"},
      {FileKind::kNumpy, "NumPy array"},
      {FileKind::kManifest, "manifest"},
      {FileKind::kConfig, "training config"},
      {FileKind::kJson, "JSON"},
      {FileKind::kSafetensors, "safetensors (weights)"},
      {FileKind::kCheckpoint, "checkpoint folder"},
      {FileKind::kParquet, "Parquet file"},
      {FileKind::kZip, "zip archive (perhaps NumPy's .npz)"},
      {FileKind::kKeyCounts, "key counts of a manifest"},
      {FileKind::kBinary, "binary data without header"},
  };
  std::string text = file.table;
  for (const auto& [kind, name] : kNames)
    if (kind == file.kind && text.empty()) text = name;
  return text + (file.compression == Compression::kGzip   ? ", gzip"
                 : file.compression == Compression::kZstd ? ", zstd"
                                                          : "");
}

}  // namespace hlite::prep
