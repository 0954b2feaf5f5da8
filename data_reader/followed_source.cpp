#include "data_reader/followed_source.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::data {

namespace fs = std::filesystem;

static constexpr const char* kEndFile = "_END";

FollowedSource::FileState::FileState(const struct stat& status)
    : inode(status.st_ino),
      size(status.st_size),
      seconds(status.st_ctim.tv_sec),
      nanoseconds(status.st_ctim.tv_nsec) {}

FollowedSource::FollowedSource(const config::DataConfig& config, std::string folder,
                               int64_t batch_size, std::span<const int64_t> slot_rows,
                               const Shard& shard)
    : config_(config),
      folder_(std::move(folder)),
      ending_(config.format->ending),
      batch_size_(batch_size),
      slot_rows_(slot_rows),
      shard_(shard) {
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    raise<DataError>("{}: expected a folder to follow, found {}", folder_,
                     fs::exists(folder_, error) ? "a file" : "nothing");
}

FollowedSource::NextFile FollowedSource::poll() {
  // Before the names are read: what was written before _END is among them.
  const bool complete = fs::exists(path(kEndFile));
  std::string next;
  try {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(ending_) || name.starts_with('.') || name.starts_with('_')) continue;
      struct stat status {};
      if (::stat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        if (no_files_.insert(name).second)
          log::warning("{}: expected a file, found something else, which is passed over",
                       path(name));
        continue;
      }
      if (name > file_) {
        if (next.empty() || name < next) next = name;
        continue;
      }
      const FileState state(status);
      const auto [passed, is_new] = passed_.emplace(name, state);
      if (is_new && polled_ && name != file_)
        log::warning("{}: it came after {} had been read, and is not: names must be in order",
                     path(name), file_);
      if (passed->second != state)
        log::warning(
            "{}: it was replaced or written to after it had its turn, and is not read "
            "again: new data need a new name",
            path(name));
      passed->second = state;
    }
  } catch (const fs::filesystem_error& error) {
    raise<FileError>("{}: {}", folder_, error.code().message());
  }
  polled_ = true;
  if (!next.empty()) return {Next::kFile, next};
  return {complete ? Next::kEnd : Next::kNothing, ""};
}

FollowedSource::FileState FollowedSource::state_of(const std::string& file) const {
  struct stat status {};
  ::stat(path(file).c_str(), &status);
  return FileState(status);
}

void FollowedSource::open(const std::string& file, int64_t start_batch) {
  SourceOptions options;
  options.start_batch = start_batch;
  options.repeat = false;
  options.shard = shard_;
  const FileState state = state_of(file);  // of what is read, or of what it has replaced
  auto source = open_source(config_, path(file), Split::kTrain, batch_size_, slot_rows_, options);
  closed_ = {.replaced_keys = replaced_keys(),
             .bytes_read = bytes_read(),
             .wait_seconds = wait_seconds(),
             .decode_seconds = decode_seconds()};
  current_ = std::move(source);
  file_ = file;
  passed_.insert_or_assign(file, state);
}

void FollowedSource::pass_over(const std::string& file, const FileState& state) {
  HLITE_CHECK(at_end_of_file(), "{} is not read to its end", path(file_));
  file_ = file;
  passed_.insert_or_assign(file, state);
}

void FollowedSource::reopen(const std::string& file, int64_t start_batch, int64_t batches) {
  if (start_batch == batches) {
    file_ = file;
    finished_ = batches;
    return;
  }
  open(file, start_batch);
  if (file_batches() != batches)
    raise<DataError>("{}: expected {} batches, as when the checkpoint was saved, found {}",
                     path(file), batches, file_batches());
}

const HostBatch& FollowedSource::next() {
  HLITE_CHECK(current_ != nullptr, "no file of {} is open", folder_);
  return current_->next();
}

int64_t FollowedSource::replaced_keys() const {
  return closed_.replaced_keys + (current_ ? current_->replaced_keys() : 0);
}
double FollowedSource::wait_seconds() const {
  return closed_.wait_seconds + (current_ ? current_->wait_seconds() : 0);
}
int64_t FollowedSource::bytes_read() const {
  return closed_.bytes_read + (current_ ? current_->bytes_read() : 0);
}
double FollowedSource::decode_seconds() const {
  return closed_.decode_seconds + (current_ ? current_->decode_seconds() : 0);
}

std::vector<std::span<std::byte>> FollowedSource::memory() const {
  return current_ ? current_->memory() : std::vector<std::span<std::byte>>();
}

}  // namespace hlite::data
