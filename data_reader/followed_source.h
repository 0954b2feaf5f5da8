// FollowedSource: the files of a folder that grows ("follow" of a Data layer), one after another in
// the order of their names, each of them once. A file is complete when it has its name: its
// writer renames it into place. A file `_END` says that no more will come.
//
// Files are .bin of raw data, .txt (lists) of Norm and .parquet; other names, and those that begin
// with "." or "_", are passed over.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data_reader/open_source.h"

namespace hlite::data {

class FollowedSource final : public BatchSource {
 public:
  // `slot_rows` and `config` must outlive it. Throws DataError where `folder` is none.
  FollowedSource(const config::DataConfig& config, std::string folder, int64_t batch_size,
                 std::span<const int64_t> slot_rows, const Shard& shard);

  enum class Next { kFile, kEnd, kNothing };
  struct NextFile {
    Next next = Next::kNothing;
    std::string file;
  };
  // Returns what comes after the file that is open, or was open last, without waiting. Warns of a
  // file that has come too late, as its name is before that of one which has been read; of one that
  // was replaced or written to after its turn; and of what is no file, such as a pipe, which is
  // never opened.
  NextFile poll();
  // Opens a file of the folder, of which `start_batch` batches have been handed out. From here on
  // batches lie in other memory(). Throws what open_source() does.
  void open(const std::string& file, int64_t start_batch = 0);
  // Does the same after a resume. A file that has been read to its end may be missing. Throws
  // DataError if the file has another number of batches.
  void reopen(const std::string& file, int64_t start_batch, int64_t batches);
  // Tells two contents of a file apart.
  struct FileState {
    explicit FileState(const struct stat& status);
    bool operator==(const FileState&) const = default;
    uint64_t inode;
    int64_t size, seconds, nanoseconds;  // the times of the last change, which no copy can set
  };
  [[nodiscard]] FileState state_of(const std::string& file) const;
  // Takes a file as read that had no samples when this was its state. What is written to it later
  // is warned of.
  void pass_over(const std::string& file, const FileState& state);
  // Returns true if a file must be opened before next().
  [[nodiscard]] bool at_end_of_file() const { return position() == file_batches(); }
  [[nodiscard]] const std::string& file() const { return file_; }  // read last; "" before the first
  [[nodiscard]] int64_t file_batches() const { return current_ ? batches_per_epoch() : finished_; }
  [[nodiscard]] std::string path(const std::string& file) const { return folder_ + "/" + file; }

  const HostBatch& next() override;
  [[nodiscard]] const HostBatch* ready() const override { return current_->ready(); }
  [[nodiscard]] int64_t batch_size() const override { return batch_size_; }
  // samples() and position() are those of the open file.
  [[nodiscard]] int64_t samples() const override { return current_ ? current_->samples() : 0; }
  [[nodiscard]] int64_t position() const override {
    return current_ ? current_->position() : finished_;
  }
  // These count all files together.
  [[nodiscard]] int64_t replaced_keys() const override;
  [[nodiscard]] double wait_seconds() const override;
  [[nodiscard]] int64_t bytes_read() const override;
  [[nodiscard]] double decode_seconds() const override;
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const override;

 private:
  const config::DataConfig& config_;
  const std::string folder_, ending_;
  const int64_t batch_size_;
  const std::span<const int64_t> slot_rows_;
  const Shard shard_;
  std::unique_ptr<BatchSource> current_;
  std::string file_;
  int64_t finished_ = 0;                     // without an open file: batches of the last one
  std::map<std::string, FileState> passed_;  // by name, up to that of file_: as last seen
  std::set<std::string> no_files_;           // names of pipes, folders, ... that were reported
  bool polled_ = false;
  struct Totals {
    int64_t replaced_keys = 0, bytes_read = 0;
    double wait_seconds = 0, decode_seconds = 0;
  } closed_;  // totals of the files before this one
};

}  // namespace hlite::data
