#include "tools/prep/prep_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/stopwatch.h"
#include "tools/io/stage_progress.h"
#include "tools/prep/parse_stage.h"
#include "tools/prep/placed_file.h"
#include "tools/prep/prep_state.h"
#include "tools/prep/work_folder.h"

namespace hlite::tools {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// The program itself, its libraries and small buffers.
constexpr int64_t kProgramBytes = 32 * kMiB;
// The most that a crash of the whole machine can cost.
constexpr auto kDurableEvery = std::chrono::seconds(60);

void replace_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    raise<FileError>("{}: cannot rename to {}: {}", from, to, std::strerror(errno));
}

int thread_count(const PrepOptions& options) {
  return options.threads > 0 ? options.threads : available_threads();
}

// The ring of the first stage: text, and some times as much for what it is parsed into.
int64_t ring_bytes(const PrepOptions& options) {
  return (2 * int64_t{thread_count(options)} + 2) * options.block_bytes;
}

}  // namespace

void check_inputs(const std::vector<std::string>& train, const std::vector<std::string>& val,
                  const PrepOptions& options) {
  if (train.empty()) raise<ConfigError>("--train: expected at least one file");
  if (std::count(train.begin(), train.end(), "-") + std::count(val.begin(), val.end(), "-") > 1)
    raise<ConfigError>("standard input (-) can be given only once");
  if (!(options.sample > 0 && options.sample <= 1))
    raise<ConfigError>("--sample: expected a share above 0 and up to 1 (100%), found {}",
                       options.sample);
}

int64_t allowed_memory(const PrepOptions& options) {
  const int64_t memory = options.memory > 0 ? options.memory : available_memory_bytes() / 2;
  const int64_t least = kProgramBytes + 5 * ring_bytes(options);
  if (memory < least) {
    raise<ConfigError>("--memory: expected at least {}M for {} threads, found {} bytes",
                       (least + kMiB - 1) / kMiB, thread_count(options), memory);
  }
  return memory;
}

struct PrepEngine::State {
  State(const PrepOptions& o, RowParser& p)
      : options(o),
        parser(p),
        layout(p.layout()),
        memory(allowed_memory(o)),
        folder(o.out),
        progress(o.quiet),
        pool(thread_count(o)) {}

  [[nodiscard]] std::string column(int c) const {
    return folder.path(fmt::format("column_{:02}", c));
  }
  [[nodiscard]] std::string slot_file(const char* kind, int slot) const {
    return folder.path(fmt::format("{}_{:02}", kind, slot));
  }
  [[nodiscard]] std::string key_column(int slot) const { return column(layout.first_key() + slot); }
  void point(std::string_view name) const {
    if (options.at_point) options.at_point(name);
  }

  // What is left of the memory for a stage that shares it out.
  [[nodiscard]] int64_t budget() const { return memory - kProgramBytes - ring_bytes(options); }

  void load();
  void save();
  void save_durable();
  void reuse_numbered_keys();
  bool number_slot(const NumberingRecipe& recipe, int slot, MemoryBudget& budget, bool alone);

  const PrepOptions options;
  RowParser& parser;
  const RowLayout layout;
  const int64_t memory;
  WorkFolder folder;
  PrepState done;
  StageProgress progress;
  ThreadPool pool;
  std::mutex mutex;              // of `done` and what follows, in the second stage
  std::vector<PlacedFile> open;  // in the first stage
  std::set<int> durable_slots;
  std::vector<std::string> spare;  // files whose content is not needed any more
  Clock::time_point durable_at = Clock::now();
  std::vector<data::ManifestColumn> columns;
};

void PrepEngine::State::load() {
  const nlohmann::ordered_json run = describe_run(options);
  if (options.restart) folder.clear();
  if (const auto saved = folder.load()) {
    done = PrepState::from_json(*saved, folder.folder());
    const std::string what = difference(done.run, run);
    if (what.empty()) {
      if (!options.quiet)
        log::info("going on with the unfinished run in {}: {} rows read, {} columns numbered",
                  folder.folder(), done.parse.rows, done.columns.size());
      return;
    }
    // One that got nowhere, as with a slip in the name of a file, is no loss.
    if (done.parse.rows > 0)
      raise<ConfigError>(
          "{}: holds an unfinished run of other options or inputs ({}); --restart forgets it",
          folder.folder(), what);
    done = {};
  }
  folder.clear();
  done.run = run;
  done.parse.missing.assign(static_cast<size_t>(layout.slots), 0);
}

void PrepEngine::State::save() {
  point("save");
  folder.save(done.to_json());
  point("saved");
  if (Clock::now() - durable_at >= kDurableEvery) save_durable();
}

void PrepEngine::State::save_durable() {
  for (const PlacedFile& file : open) file.make_durable();
  for (const auto& [slot, column] : done.columns) {
    if (!durable_slots.insert(slot).second) continue;
    for (const char* kind : {"ids", "counts", "keys"}) {
      const std::string path = slot_file(kind, slot);
      if (!std::filesystem::exists(path)) continue;
      PlacedFile(path, static_cast<int64_t>(std::filesystem::file_size(path))).make_durable();
    }
  }
  sync_directory(folder.folder());
  folder.save_durable(done.to_json());
  durable_at = Clock::now();
}

// Frees key columns that are not needed again: not while the durable state still does without their
// ids. Their pages serve the ids of the next columns, which is cheaper than new ones.
void PrepEngine::State::reuse_numbered_keys() {
  for (const auto& [slot, column] : done.columns) {
    const std::string path = key_column(slot);
    if (folder.has_durable() && !durable_slots.contains(slot)) continue;
    if (!std::filesystem::exists(path)) continue;
    spare.push_back(slot_file("spare", slot));
    replace_file(path, spare.back());
  }
}

PrepEngine::PrepEngine(const PrepOptions& options, RowParser& parser)
    : state_(std::make_unique<State>(options, parser)) {
  state_->load();
}

PrepEngine::~PrepEngine() = default;

void PrepEngine::parse() {
  State& s = *state_;
  if (s.done.parse.done) return;
  for (int c = 0; c < s.layout.columns(); ++c)
    s.open.emplace_back(s.column(c), s.done.parse.rows * s.layout.bytes(c));
  int64_t bytes = 0;
  for (const PrepInput& input : s.options.inputs) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(input.path, unknown);
    if (!unknown) bytes += static_cast<int64_t>(size);
  }
  s.progress.begin("reading", bytes);
  ParseState state = s.done.parse;
  const auto save = [&](const ParseState& now) {
    s.done.parse = now;
    s.save();
  };
  parse_inputs(s.options, s.parser, s.open, state, save, s.progress, s.pool);
  s.progress.end();
  s.open.clear();
}

// Numbers a slot, or returns false when it does not fit the memory beside the others.
bool PrepEngine::State::number_slot(const NumberingRecipe& recipe, int slot, MemoryBudget& budget,
                                    bool alone) {
  ColumnTask task;
  task.name = parser.slot_name(slot);
  task.keys = key_column(slot);
  task.key_bytes = layout.key_bytes;
  task.rows = done.parse.rows;
  task.train_rows = done.parse.train_rows();
  task.ids = slot_file("ids", slot);
  task.counts = slot_file("counts", slot);
  task.keys_of_ids = slot_file("keys", slot);
  task.progress = [&](int64_t rows) {
    point("number");
    if (InterruptGuard::requested()) throw Interrupted();
    progress.advance(rows);
  };
  {
    const std::lock_guard lock(mutex);
    if (!spare.empty()) {
      replace_file(spare.back(), task.ids);
      spare.pop_back();
    }
  }
  try {
    data::ManifestColumn column = number_column(recipe, task, budget);
    const std::lock_guard lock(mutex);
    column.name = task.name;
    column.missing = done.parse.missing[static_cast<size_t>(slot)];
    done.columns[slot] = column;
    save();
    reuse_numbered_keys();
    return true;
  } catch (const ColumnOutOfBudget& error) {
    if (!alone) return false;
    raise<DataError>(
        "column {}: needs {} MiB of memory after {} distinct keys, has {} MiB (--memory {} MiB); "
        "more --memory helps, or fewer keys: --max-ind-range, --hash",
        task.name, (error.needed() + kMiB - 1) / kMiB, error.distinct(), budget.total() / kMiB,
        memory / kMiB);
  }
}

void PrepEngine::number(const NumberingRecipe& recipe) {
  State& s = *state_;
  std::vector<int> todo, alone;
  for (int slot = 0; slot < s.layout.slots; ++slot)
    if (!s.done.columns.contains(slot)) todo.push_back(slot);
  s.progress.begin("numbering", static_cast<int64_t>(todo.size()) * s.done.parse.rows);
  MemoryBudget budget(s.options.numbering_bytes > 0 ? s.options.numbering_bytes : s.budget());
  s.pool.run(static_cast<int64_t>(todo.size()), [&](int64_t i, int) {
    const int slot = todo[static_cast<size_t>(i)];
    if (s.number_slot(recipe, slot, budget, false)) return;
    const std::lock_guard lock(s.mutex);
    alone.push_back(slot);
  });
  std::sort(alone.begin(), alone.end());
  for (const int slot : alone) s.number_slot(recipe, slot, budget, true);
  for (const std::string& path : s.spare) remove_path(path);
  s.spare.clear();
  s.progress.end();
  s.columns.clear();
  for (const auto& [slot, column] : s.done.columns) s.columns.push_back(column);
}

const std::vector<data::ManifestSource>& PrepEngine::sources() const {
  return state_->done.parse.sources;
}

int64_t PrepEngine::rows() const { return state_->done.parse.rows; }

int64_t PrepEngine::train_rows() const { return state_->done.parse.train_rows(); }

ReadFile PrepEngine::dense_column(int k) const { return ReadFile(state_->column(1 + k)); }

ReadFile PrepEngine::keys_of_ids(int slot) const {
  return ReadFile(state_->slot_file("keys", slot));
}

const std::vector<data::ManifestColumn>& PrepEngine::columns() const { return state_->columns; }

ColumnRows PrepEngine::numbered_rows(int64_t first, int64_t rows, DenseFinish finish) const {
  const RowLayout& layout = state_->layout;
  std::vector<std::string> paths;
  for (int c = 0; c < layout.first_key(); ++c) paths.push_back(state_->column(c));
  for (int slot = 0; slot < layout.slots; ++slot) paths.push_back(state_->slot_file("ids", slot));
  const RowShape shape{
      .dense = layout.dense, .slots = layout.slots, .dense_is_float = static_cast<bool>(finish)};
  return ColumnRows(shape, paths, first, rows, std::move(finish));
}

std::unique_ptr<OutputFile> PrepEngine::write_key_counts(data::Manifest& manifest) const {
  const State& s = *state_;
  manifest.sources = sources();
  manifest.columns = columns();
  manifest.slot_sizes.clear();
  for (const auto& column : columns()) manifest.slot_sizes.push_back(column.rows);
  manifest.key_counts_name = "key_counts.bin";
  auto out = std::make_unique<OutputFile>(
      (std::filesystem::path(s.options.out) / manifest.key_counts_name).string());
  std::vector<std::byte> part(static_cast<size_t>(kMiB));
  for (int slot = 0; slot < s.layout.slots; ++slot) {
    const ReadFile counts(s.slot_file("counts", slot));
    for (int64_t at = 0; at < counts.size();) {
      const auto bytes = std::min(counts.size() - at, static_cast<int64_t>(part.size()));
      counts.read(at, std::span(part).first(static_cast<size_t>(bytes)));
      out->write(part.data(), static_cast<size_t>(bytes));
      at += bytes;
    }
  }
  out->finish();
  manifest.key_counts_xxh3 = out->xxh3();
  return out;
}

ThreadPool& PrepEngine::pool() { return state_->pool; }

SplitResources PrepEngine::split_resources(const std::string& role) {
  State& s = *state_;
  bool begun = false;
  return {.memory_bytes = s.budget(),
          .scratch = s.folder.folder(),
          .progress = [&s, role, begun](int64_t done, int64_t rows) mutable {
            if (!begun) s.progress.begin("writing " + role, rows, done);
            begun = true;
            s.point("write");
            if (InterruptGuard::requested()) throw Interrupted();
            s.progress.update(done, done);
            if (done == rows) s.progress.end();
          }};
}

void PrepEngine::finish() {
  state_->point("published");
  state_->folder.remove();
}

}  // namespace hlite::tools
