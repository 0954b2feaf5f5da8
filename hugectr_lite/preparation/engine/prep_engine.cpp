#include "hugectr_lite/preparation/engine/prep_engine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "data_reader/unknown_values.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/preparation/engine/output_folder.h"
#include "hugectr_lite/preparation/engine/slot_tables.h"
#include "hugectr_lite/preparation/engine/split_files.h"

namespace hlite::prep {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// The program itself, its libraries and small buffers.
constexpr int64_t kProgramBytes = 32 * kMiB;
constexpr const char* kKeyCounts = "key_counts.bin";
// Says which run has made the results of a folder, so that the same command finds nothing to do.
constexpr const char* kComplete = ".complete";
constexpr int64_t kMaxNoteBytes = 64 * kMiB;

int thread_count(const PrepOptions& options) {
  return options.threads > 0 ? options.threads : available_threads();
}

// The ring of the first stage: text, and some times as much for what it is parsed into.
int64_t ring_bytes(const PrepOptions& options) {
  return (2 * int64_t{thread_count(options)} + 2) * options.block_bytes;
}

PrepOptions with_output(PrepOptions run, const OutputOptions& output) {
  run.out = output.folder;
  run.seed = output.seed;
  return run;
}

}  // namespace

void check_inputs(const std::vector<std::string>& train, const std::vector<std::string>& val,
                  const PrepOptions& options) {
  if (train.empty()) raise<ConfigError>("--train: expected at least one file");
  if (std::count(train.begin(), train.end(), "-") + std::count(val.begin(), val.end(), "-") > 1)
    raise<ConfigError>("standard input (-) can be given only once");
  for (const std::string& path : val)
    for (const std::string& other : train)
      if (std::error_code none; path == other || std::filesystem::equivalent(path, other, none))
        raise<ConfigError>(
            "{}: expected a file for training or for validation, found it given as both: give "
            "other rows, as a model knows those that it was trained on",
            path);
  if (!(options.sample > 0 && options.sample <= 1))
    raise<ConfigError>("--sample: expected a share above 0 and up to 1 (100%), found {}",
                       options.sample);
  if (!(options.negative_share > 0 && options.negative_share <= 1))
    raise<ConfigError>("--negative-share: expected a share above 0 and up to 1 (100%), found {}",
                       options.negative_share);
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

PrepEngine::PrepEngine(PrepOptions run, OutputOptions output, RowParser& parser)
    : options_(with_output(std::move(run), output)),
      output_(std::move(output)),
      parser_(parser),
      layout_(parser.layout()),
      memory_(allowed_memory(options_)),
      folder_(options_.out),
      progress_(options_.quiet),
      pool_(thread_count(options_)) {
  load();
}

std::string PrepEngine::column(int c) const { return folder_.path(fmt::format("column_{:02}", c)); }

std::string PrepEngine::slot_file(const char* kind, int slot) const {
  return folder_.path(fmt::format("{}_{:02}", kind, slot));
}

int64_t PrepEngine::budget() const { return memory_ - kProgramBytes - ring_bytes(options_); }

void PrepEngine::load() {
  const nlohmann::ordered_json run = describe_run(options_);
  const bool from_files = std::none_of(options_.inputs.begin(), options_.inputs.end(),
                                       [](const PrepInput& input) { return input.path == "-"; });
  const std::string note = output_.folder + "/" + kComplete;
  complete_ = !options_.force && !options_.restart && from_files && std::filesystem::exists(note) &&
              read_text(ReadFile(note), kMaxNoteBytes) == completed(run);
  if (complete_) {
    log::info("{}: this preparation is complete; --force repeats it", output_.folder);
    return folder_.remove();
  }
  if (options_.restart) folder_.clear();
  const bool resumed = resume(run);
  if (!folder_.publishing()) check_output_folder();
  if (resumed) return;
  done_.run = run;
  forget_run();
  folder_.save(done_.to_json(), false);  // so that a run that begins to publish knows itself again
}

// What is noted of `run` once its results, which are in their places, are complete.
std::string PrepEngine::completed(const nlohmann::ordered_json& run) const {
  nlohmann::ordered_json note = {{"run", run}, {"files", nlohmann::ordered_json::object()}};
  std::error_code gone;
  for (const std::string& name : results_in(output_.folder))
    note["files"][name] = std::filesystem::file_size(output_.folder + "/" + name, gone);
  if (const std::string manifest = output_.folder + "/manifest.json";
      std::filesystem::is_regular_file(manifest, gone)) {
    Checksum sum;
    read_pieces(ReadFile(manifest), [&](auto piece) { sum.add(piece); });
    note["manifest"] = sum.sum().digits();
  }
  return note.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<data::Manifest> PrepEngine::complete() const {
  if (!complete_) return std::nullopt;
  return data::Manifest::read(output_.folder + "/manifest.json");
}

// Forgets all that is done, but not which run it is.
void PrepEngine::forget_run() {
  folder_.clear();
  PrepState fresh;
  fresh.run = std::move(done_.run);
  done_ = std::move(fresh);
  done_.parse.missing.assign(static_cast<size_t>(layout_.slots), 0);
}

// False where there is no run to go on with.
bool PrepEngine::resume(const nlohmann::ordered_json& run) {
  const auto saved = folder_.load();
  if (!saved) return false;
  done_ = PrepState::from_json(*saved, folder_.folder());
  const std::string what = difference(done_.run, run);
  if (what.empty()) {
    if (!options_.quiet)
      log::info("going on with the unfinished run in {}: {} rows read, {} columns numbered",
                folder_.folder(), done_.parse.rows, done_.columns.size());
    return true;
  }
  // One that got nowhere, as with a slip in the name of a file, is no loss.
  if ((done_.parse.rows > 0 || folder_.publishing()) && !options_.force)
    raise<ConfigError>(
        "{}: holds an unfinished run of other options or inputs ({}); --restart forgets it",
        folder_.folder(), what);
  folder_.clear();
  return false;
}

void PrepEngine::check_output_folder() {
  const std::vector<std::string> found = results_in(output_.folder);
  try {
    for (const std::string& name : found)
      for (const PrepInput& input : options_.inputs)
        if (std::error_code none;
            std::filesystem::equivalent(output_.folder + "/" + name, input.path, none))
          raise<ConfigError>(
              "--out {}: expected inputs other than the files to be written, found {}",
              output_.folder, input.path);
    if (!options_.force) refuse_results(output_.folder, found);
  } catch (const ConfigError&) {
    if (!folder_.load()) folder_.remove();
    throw;
  }
}

// Saves the state, at most every checkpoint_seconds: a run that is killed loses what it did since.
// Removes the key columns whose ids are saved, since they are not needed again.
void PrepEngine::save() {
  if (seconds_since(saved_at_) >= options_.checkpoint_seconds) save_now();
}

void PrepEngine::save_now() {
  at_point("save");
  folder_.save(done_.to_json(), options_.checkpoint_seconds > 0);
  for (const auto& [slot, column] : done_.columns) remove_path(key_column(slot));
  saved_at_ = Clock::now();
  at_point("saved");
}

// Words as they are parsed and ids as they come are what the result has.
bool PrepEngine::fits_one_pass(const NumberingRecipe& recipe) const {
  const auto again = [](const PrepInput& input) {
    std::error_code none;
    return std::filesystem::is_regular_file(input.path, none);
  };
  const auto has_later_split = [](const PrepInput& input) { return input.role == "val+test"; };
  const auto& inputs = options_.inputs;
  return layout_.dense_bytes == 4 && layout_.key_bytes == 4 && layout_.slot_tables.empty() &&
         layout_.keys.slots() == 0 && recipe.min_count == 0 && !recipe.by_frequency &&
         std::all_of(inputs.begin(), inputs.end(), again) &&
         (recipe.hash_range == 0 || std::none_of(inputs.begin(), inputs.end(), has_later_split));
}

bool PrepEngine::result_is_rows() const {
  return output_.format == OutputFormat::kRaw && output_.multi_hot.empty() && !output_.shuffle;
}

void PrepEngine::parse(const NumberingRecipe* recipe) {
  if (done_.parse.done) return;
  const bool begun = done_.parse.rows > 0;
  if (begun ? !done_.one_pass : done_.by_columns || !recipe || !fits_one_pass(*recipe))
    return parse_by_columns();
  try {
    parse_in_one_pass(*recipe);
  } catch (const OutOfBudget&) {
    if (!options_.quiet)
      log::info("the dictionaries of all columns do not fit the memory: one after the other");
    forget_run();
    done_.by_columns = true;
    parse_by_columns();
  }
}

void PrepEngine::parse_by_columns() {
  std::vector<PlacedFile> files;
  for (int c = 0; c < layout_.columns(); ++c)
    files.emplace_back(column(c), done_.parse.rows * layout_.bytes(c));
  ColumnSink sink(layout_, files, options_);
  parse(sink, [](const ParseState&) {});
}

void PrepEngine::parse_in_one_pass(const NumberingRecipe& recipe) {
  OnePassFiles files{.rows = folder_.path("rows")};
  if (result_is_rows()) {
    files.result = folder_.path(raw_name("train"));
    files.result_name = output_.folder + "/" + raw_name("train");
  }
  for (int slot = 0; slot < layout_.slots; ++slot) files.keys.push_back(slot_file("keys", slot));
  const int64_t memory = options_.numbering_bytes > 0 ? options_.numbering_bytes : budget();
  OnePass one_pass(recipe, parser_, files, memory, pool_, done_.parse.rows,
                   done_.one_pass.value_or(OnePassState()), options_.at_point);
  parse(one_pass, [&](const ParseState& now) {
    done_.one_pass = one_pass.save();
    if (!now.done) return;
    std::vector<data::ManifestColumn> columns(static_cast<size_t>(layout_.slots));
    pool_.run(layout_.slots, [&](int64_t i, int) {
      const auto slot = static_cast<int>(i);
      data::ManifestColumn& column = columns[static_cast<size_t>(i)];
      column = one_pass.finish(slot, slot_file("counts", slot));
      column.name = parser_.slot_name(slot);
      column.missing = now.missing[static_cast<size_t>(i)];
    });
    for (int slot = 0; slot < layout_.slots; ++slot)
      done_.columns[slot] = std::move(columns[static_cast<size_t>(slot)]);
  });
  result_ = one_pass.take_result();
}

void PrepEngine::parse(BlockSink& sink, const std::function<void(const ParseState&)>& before_save) {
  int64_t bytes = 0;
  for (const PrepInput& input : options_.inputs) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(input.path, unknown);
    if (!unknown) bytes += static_cast<int64_t>(size);
  }
  progress_.begin("reading", bytes);
  ParseState state = done_.parse;
  const auto keep = [&](const ParseState& now) {
    before_save(now);
    done_.parse = now;
    save();
  };
  parse_inputs(options_, parser_, sink, state, keep, progress_, pool_);
  progress_.end();
}

StoredRows PrepEngine::stored_rows(const SplitRows& split) const {
  const int64_t before = result_is_rows() ? rows_of("train") : 0;
  return {{.dense = layout_.dense, .slots = layout_.slots},
          folder_.path("rows"),
          split.first - before,
          split.rows};
}

// Counts what columns have in the rows of other splits, after one pass.
void PrepEngine::count_split_values(const NumberingRecipe& recipe) {
  std::vector<std::string> counts;
  for (int slot = 0; slot < layout_.slots; ++slot) counts.push_back(slot_file("counts", slot));
  for (auto& [slot, column] : done_.columns) column.splits.clear();
  for (size_t s = 1; s < split_rows_.size(); ++s) {
    const auto values = split_values(stored_rows(split_rows_[s]), split_rows_[s].role,
                                     *done_.one_pass, recipe.hash_range > 0, counts, pool_);
    for (auto& [slot, column] : done_.columns)
      column.splits.push_back(values[static_cast<size_t>(slot)]);
  }
}

// Numbers the slots of a table. Returns false if it does not fit in memory with the others.
bool PrepEngine::number_table(const NumberingRecipe& recipe, const std::vector<int>& slots,
                              MemoryBudget& budget, bool alone) {
  TableTask task;
  task.name = parser_.slot_name(slots.front());
  task.slot = slots.front();
  task.key_bytes = layout_.key_bytes;
  task.rows = done_.parse.rows;
  task.train_rows = rows_of("train");
  task.others.assign(split_rows_.begin() + 1, split_rows_.end());
  for (const int slot : slots)
    task.columns.push_back({key_column(slot), slot_file("ids", slot), slot_file("counts", slot),
                            slot, layout_.hotness(slot)});
  task.keys_of_ids = slot_file("keys", slots.front());
  task.progress = [&](int64_t values) {
    at_point("number");
    if (InterruptGuard::requested()) throw Interrupted();
    progress_.advance(values);
  };
  try {
    const std::vector<data::ManifestColumn> columns = prep::number_table(recipe, task, budget);
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < slots.size(); ++i) {
      data::ManifestColumn& column = done_.columns[slots[i]] = columns[i];
      column.name = parser_.slot_name(slots[i]);
      column.missing = done_.parse.missing[static_cast<size_t>(slots[i])];
    }
    save();
    return true;
  } catch (const TableOutOfBudget& error) {
    if (!alone) return false;
    std::vector<std::string> names;
    for (const int slot : slots) names.push_back(parser_.slot_name(slot));
    raise<DataError>(
        "column{} {}: needs {} MiB of memory after {} distinct keys, has {} MiB (--memory {} "
        "MiB); more --memory helps, or fewer keys: --max-ind-range, --hash",
        names.size() == 1 ? "" : "s", fmt::join(names, ", "), (error.needed() + kMiB - 1) / kMiB,
        error.distinct(), budget.total() / kMiB, memory_ / kMiB);
  }
}

void PrepEngine::number(const NumberingRecipe& recipe, std::vector<SplitRows> splits) {
  split_rows_ = std::move(splits);
  if (done_.one_pass) count_split_values(recipe);
  std::vector<std::vector<int>> todo, alone;
  int64_t keys = 0;  // of a row
  for (const std::vector<int>& slots : slots_of_tables(layout_.slots, layout_.slot_tables)) {
    if (done_.columns.contains(slots.front())) continue;
    todo.push_back(slots);
    for (const int slot : slots) keys += layout_.hotness(slot);
  }
  progress_.begin("numbering", keys * done_.parse.rows);
  MemoryBudget memory(options_.numbering_bytes > 0 ? options_.numbering_bytes : budget());
  pool_.run(std::ssize(todo), [&](int64_t i, int) {
    const std::vector<int>& slots = todo[static_cast<size_t>(i)];
    if (number_table(recipe, slots, memory, false)) return;
    const std::lock_guard lock(mutex_);
    alone.push_back(slots);
  });
  std::sort(alone.begin(), alone.end());
  for (const std::vector<int>& slots : alone) number_table(recipe, slots, memory, true);
  progress_.end();
  slot_sizes_.clear();
  for (const auto& [slot, column] : done_.columns) slot_sizes_.push_back(column.rows);
  report_unknown();
  write_key_counts();
}

void PrepEngine::report_unknown() const {
  std::vector<data::ManifestColumn> columns;
  for (const auto& [slot, column] : done_.columns) columns.push_back(column);
  for (size_t s = 1; s < split_rows_.size(); ++s) {
    data::UnknownValues found(columns.size());
    found.rows = split_rows_[s].rows;
    for (size_t i = 0; i < columns.size(); ++i) {
      found.missing[i] = columns[i].splits.at(s - 1).missing;
      found.unknown[i] = columns[i].splits.at(s - 1).unknown;
    }
    data::report_unknown(found, split_rows_[s].role, columns, rows_of("train"),
                         options_.max_unknown, !options_.quiet);
  }
}

int64_t PrepEngine::rows_of(std::string_view role) const { return done_.parse.rows_of(role); }

void PrepEngine::keep(nlohmann::ordered_json fitted) {
  done_.fitted = std::move(fitted);
  save();
}

// Table after table, under a temporary name.
void PrepEngine::write_key_counts() {
  key_counts_ = std::make_unique<OutputFile>(output_.folder + "/" + kKeyCounts);
  for (int slot = 0; slot < layout_.slots; ++slot)
    read_pieces(ReadFile(slot_file("counts", slot)),
                [&](auto piece) { key_counts_->write(piece); });
  key_counts_->finish();
}

void PrepEngine::write(const DenseFinish& finish) {
  for (const SplitRows& split : split_rows_) write(split, finish);
}

// The training rows of one pass, which are written.
WrittenSplit PrepEngine::stored_result() {
  const std::string path = output_.folder + "/" + raw_name("train");
  const std::string temporary = folder_.path(raw_name("train"));
  // A run that was killed while it gave names to the results may have come to this one.
  if (!std::filesystem::exists(temporary) && folder_.publishing()) rename_path(path, temporary);
  if (!result_) {
    const int64_t bytes = rows_of("train") * 4 * layout_.columns();
    result_ = std::make_unique<OutputFile>(path, temporary, bytes);
    read_pieces(ReadFile(temporary), [&](auto piece) { result_->repeat(piece); });
  }
  at_point("write");
  WrittenSplit split = raw_split("train", std::move(result_));
  split.file.rows = rows_of("train");
  split.file.positives = done_.one_pass->positives;
  return split;
}

void PrepEngine::write(const SplitRows& split, DenseFinish finish) {
  if (done_.one_pass && result_is_rows() && split.role == "train")
    return splits_.push_back(stored_result());
  std::vector<std::string> paths;
  for (int c = 0; c < layout_.first_key(); ++c) paths.push_back(column(c));
  for (int slot = 0; slot < layout_.slots; ++slot) paths.push_back(slot_file("ids", slot));
  const RowShape shape{.dense = layout_.dense,
                       .slots = layout_.slots,
                       .dense_is_float = static_cast<bool>(finish),
                       .slot_tables = layout_.slot_tables,
                       .real_label = layout_.real_label,
                       .weighted = layout_.weighted,
                       .labels = layout_.labels,
                       .hotness = layout_.keys.hotness};
  std::unique_ptr<const RowSource> rows;
  if (done_.one_pass)
    rows = std::make_unique<StoredRows>(stored_rows(split));
  else
    rows = std::make_unique<ColumnRows>(shape, paths, split.first, split.rows, std::move(finish));
  bool begun = false;
  const auto progress = [&](int64_t done, int64_t all) {
    if (!std::exchange(begun, true)) progress_.begin("writing " + split.role, all, done);
    at_point("write");
    if (InterruptGuard::requested()) throw Interrupted();
    progress_.update(done, done);
    if (done == all) progress_.end();
  };
  splits_.push_back(write_split(
      *rows, split.role, slot_sizes_, output_,
      {.memory_bytes = budget(), .scratch = folder_.folder(), .progress = progress}, pool_));
}

void PrepEngine::publish(data::Manifest& manifest) {
  manifest.sources = done_.parse.sources;
  for (const auto& [slot, column] : done_.columns) manifest.columns.push_back(column);
  manifest.slot_sizes = slot_sizes_;
  manifest.key_counts_name = kKeyCounts;
  manifest.key_counts_xxh3 = key_counts_->xxh3();
  others_.push_back(std::move(key_counts_));
  std::move(others_.begin(), others_.end(), std::back_inserter(splits_.front().outputs));
  save_now();  // a run that is killed from here on finds results that it must take back
  folder_.begin_publishing();
  prep::publish(output_.folder, manifest, splits_);
  at_point("published");
  OutputFile note(output_.folder + "/" + kComplete);
  note.write(completed(done_.run));
  note.commit();
  at_point("noted");
  folder_.remove();
  at_point("removed");
}

}  // namespace hlite::prep
