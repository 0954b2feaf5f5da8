#include "hugectr_lite/serve/served_model.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <utility>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::serve {

namespace {

constexpr size_t kRecorded = 16;           // requests that are kept
constexpr size_t kRecordedKeys = 1 << 16;  // of each, at most

// After "keys".
void add_histories(const config::DataConfig& data, ModelDescription& description) {
  TensorSpec keys = std::move(description.inputs.back());
  description.inputs.pop_back();
  std::vector<TensorSpec> histories;
  int64_t column = 0, columns = 0;  // of all inputs before, and of these that are no histories
  for (const config::SparseInputConfig& input : data.sparse) {
    if (input.max_len > 0)
      histories.push_back({.name = input.top,
                           .type = keys.type,
                           .also = keys.also,
                           .shape = {-1, input.slot_num, -1},
                           .first_column = column,
                           .max_len = input.max_len});
    const int64_t width = KeyLayout(input.hotness).columns;
    column += width;
    columns += input.max_len > 0 ? 0 : width;
  }
  const bool named = std::none_of(histories.begin(), histories.end(), [](const TensorSpec& h) {
    return h.name == "keys" || h.name == "dense" || h.name == "text";
  });
  if (!histories.empty() && named) keys.other_columns = columns;
  description.inputs.push_back(std::move(keys));
  if (named) std::move(histories.begin(), histories.end(), std::back_inserter(description.inputs));
}

ModelDescription description_of(const std::string& name, const std::string& version,
                                const Scorer& scorer) {
  ModelDescription description{.name = name, .versions = {version}};
  if (scorer.data().dense_dim > 0)
    description.inputs.push_back(
        {.name = "dense", .type = DataType::kFp32, .shape = {-1, scorer.data().dense_dim}});
  description.inputs.push_back({.name = "keys",
                                .type = DataType::kInt64,
                                .also = {DataType::kInt32, DataType::kUint32},
                                .shape = {-1, scorer.key_columns()},
                                .rows = scorer.table_rows()});
  add_histories(scorer.data(), description);
  if (scorer.takes_text()) {
    description.inputs.push_back({.name = "text", .type = DataType::kBytes, .shape = {-1, 1}});
    const prep::ExampleLine example = scorer.example();
    description.example_line = example.line;
    description.example_names = example.names;
  }
  description.outputs.push_back(
      {.name = "score", .type = DataType::kFp32, .shape = {-1, scorer.tasks()}});
  return description;
}

}  // namespace

ServedModel::ServedModel(const ServedModelOptions& options, Metrics& metrics)
    : options_(options),
      all_metrics_(metrics),
      metrics_(metrics.model(options.name)),
      versions_(options.scorer.model, options.deltas) {
  if (!versions_.may_grow()) {
    swap_in(load_version({.version = 1}, false));
  } else if (!take_newest({})) {
    std::string reasons;
    for (const auto& [version, refusal] : refused_)
      reasons += fmt::format("\n  {}: {}", version.text(), refusal.reason);
    raise<DataError>("{}: expected a version that can be served, found none:{}",
                     options_.scorer.model, reasons);
  }
  watcher_ = std::thread([this] { watch(); });
}

ServedModel::~ServedModel() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (watcher_.joinable()) watcher_.join();
}

std::unique_ptr<LoadedVersion> ServedModel::load_version(const VersionNumber& number,
                                                         bool verify) const {
  ScorerOptions scorer = options_.scorer;
  scorer.verify = verify;
  scorer.model = versions_.model_of(number);
  auto loaded = std::make_unique<LoadedVersion>();
  loaded->number = number;
  loaded->stamp = versions_.stamp(number);
  loaded->version = number.text();
  std::optional<WeightsIdentity> weights;
  if (number.iteration > 0) {
    const auto link = checkpoint::read_delta_manifest(versions_.link_of(number));
    weights = {.iteration = link.iteration, .xxh3_64 = link.after.digits()};
    scorer.delta = versions_.deltas();
    scorer.until = number.iteration;
  } else if (checkpoint::is_checkpoint(scorer.model)) {
    const auto meta = checkpoint::read_manifest(scorer.model);
    weights = {.iteration = meta.iteration,
               .xxh3_64 = checkpoint::weights_in(scorer.model, meta).sum->digits()};
  }
  loaded->scorer = std::make_unique<Scorer>(scorer, metrics_);
  loaded->description = description_of(options_.name, loaded->version, *loaded->scorer);
  loaded->description.weights = weights;
  loaded->description.max_samples = options_.scorer.max_samples;
  loaded->description.max_batch = options_.scorer.max_batch;
  loaded->description.max_delay_us = options_.scorer.max_delay.count();
  return loaded;
}

// Recent requests go through a new version before it is served. Those that it would refuse, as it
// may have other tables, warm up nothing.
void ServedModel::warm_up(const LoadedVersion& version) const {
  std::deque<RecordedRequest> requests;
  {
    const std::lock_guard lock(mutex_);
    requests = recorded_;
  }
  const int64_t dense = version.scorer->data().dense_dim, columns = version.scorer->key_columns();
  for (const RecordedRequest& request : requests) {
    const int64_t n = std::ssize(request.keys) / columns;
    if (n * columns != std::ssize(request.keys) || n * dense != std::ssize(request.dense)) continue;
    std::promise<void> scored;
    try {
      ScoreJob job{.samples = version.scorer->rows_of({.labels = {},
                                                       .dense = {request.dense.data(), n, dense},
                                                       .keys = {request.keys.data(), n, columns}}),
                   .received = Clock::now(),
                   .deadline = Clock::time_point::max(),
                   .done = [&](const ScoreResult&) { scored.set_value(); },
                   .counted = false};
      if (version.scorer->submit(job)) scored.get_future().wait();
    } catch (const DataError&) {
      continue;
    }
  }
}

void ServedModel::swap_in(std::unique_ptr<LoadedVersion> version) {
  warm_up(*version);
  metrics_.version.Set(static_cast<double>(version->number.version));
  if (const auto& weights = version->description.weights)
    metrics_.iteration.Set(static_cast<double>(weights->iteration));
  const std::lock_guard lock(mutex_);
  if (current_) {
    log::info("model {}: now serving version {} (was {})", options_.name, version->version,
              current_->version);
    retired_.push_back(std::move(current_));
  }
  current_ = std::move(version);
  damaged_.clear();
}

ServedModel::Lease ServedModel::current() const {
  const std::lock_guard lock(mutex_);
  if (const std::string reason = why_none(); !reason.empty()) throw RequestError(503, reason);
  ++current_->users;
  return {current_.get(), [](const LoadedVersion* version) { --version->users; }};
}

std::string ServedModel::why_none() const {
  if (!damaged_.empty()) return damaged_;
  try {
    current_->scorer->expect_unchanged();
    return {};
  } catch (const FileError& error) {
    return error.what();
  }
}

void ServedModel::drain() {
  const std::lock_guard lock(mutex_);
  if (current_) current_->scorer->drain();
  for (const auto& version : retired_) version->scorer->drain();
}

void ServedModel::refuse(const VersionNumber& version, int64_t stamp, const std::string& reason) {
  const auto before = refused_.find(version);
  const bool known = before != refused_.end();
  if (!known || before->second.reason != reason) {
    log::warning("model {}: version {} is refused: {}", options_.name, version.text(), reason);
    all_metrics_.count_refused_version(options_.name);
  }
  const bool settled = known && before->second.stamp == stamp;
  const std::lock_guard lock(mutex_);
  refused_[version] = {stamp, settled, reason};
}

bool ServedModel::take_newest(const VersionNumber& above) {
  for (const VersionNumber& version : versions_.list()) {
    if (version <= above) return false;
    // A refused one may still be copied into its place, or be replaced. It is tried again when two
    // looks in a row have found the same files, once for each such state: so a copy that takes its
    // time costs a look a poll, and what was written in the clock tick of the first look is not
    // missed. Its checksum has to say that it is complete.
    const int64_t stamp = versions_.stamp(version);
    const auto refused = refused_.find(version);
    const bool again = refused != refused_.end();
    if (again) {
      if (!versions_.has_checksum(version)) continue;
      if (refused->second.stamp != stamp) {
        const std::lock_guard lock(mutex_);
        refused->second.stamp = stamp;
        refused->second.settled = false;
        continue;
      }
      if (refused->second.settled) continue;
    }
    try {
      swap_in(load_version(version, again || (current_ && options_.scorer.verify)));
      const std::lock_guard lock(mutex_);
      refused_.erase(version);
      return true;
    } catch (const std::exception& failure) {
      refuse(version, stamp, failure.what());
    }
  }
  return false;
}

// Versions that no request uses any more. No request can begin to use one.
void ServedModel::end_unused() {
  std::vector<std::unique_ptr<LoadedVersion>> ended;
  const std::lock_guard lock(mutex_);
  for (auto& version : retired_)
    if (version->users == 0) ended.push_back(std::move(version));
  std::erase(retired_, nullptr);
}

void ServedModel::check_current(const std::function<void()>& check) {
  try {
    check();
  } catch (const std::exception& error) {
    refuse(current_->number, current_->stamp, error.what());
    if (take_newest({})) return;
    const std::lock_guard lock(mutex_);
    damaged_ = error.what();
  }
}

void ServedModel::watch() {
  if (options_.scorer.verify) check_current([&] { current_->scorer->verify(); });
  for (;;) {
    std::optional<Command> command;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, options_.poll, [&] { return stop_ || !commands_.empty(); });
      if (stop_) return;
      if (!commands_.empty()) {
        command = std::move(commands_.front());
        commands_.pop_front();
      }
    }
    if (damaged_.empty()) check_current([&] { current_->scorer->expect_unchanged(); });
    if (command)
      obey(*command);
    else if (!pinned_ || !damaged_.empty())
      take_newest();
    end_unused();
  }
}

void ServedModel::obey(const Command& command) {
  std::string failure;
  if (command.version.empty()) {
    pinned_ = false;
    take_newest();
    failure = damaged_;
  } else if (const auto version = parse_version(command.version); !version) {
    failure = fmt::format("expected the number of a version, found \"{}\"",
                          command.version.substr(0, 64));
  } else {
    const int64_t stamp = versions_.stamp(*version);
    try {
      if (current_->version != command.version || !damaged_.empty())
        swap_in(load_version(*version, options_.scorer.verify || refused_.contains(*version)));
      pinned_ = true;
    } catch (const std::exception& error) {
      failure = error.what();
      refuse(*version, stamp, failure);
    }
  }
  command.done(failure);
}

void ServedModel::load(const std::string& version, std::function<void(const std::string&)> done) {
  if (!versions_.may_grow() && !version.empty() && version != "1")
    return done(fmt::format("{}: expected a folder of versions 1/, 2/, ..., found one model",
                            options_.scorer.model));
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back({version, std::move(done)});
  }
  wake_.notify_one();
}

std::vector<ServedModel::VersionState> ServedModel::index() const {
  std::string current, damaged;
  {
    const std::lock_guard lock(mutex_);
    current = current_->version;
    damaged = why_none();
  }
  if (!versions_.may_grow())
    return {{.version = current, .ready = damaged.empty(), .reason = damaged}};
  std::vector<VersionState> states;
  for (const VersionNumber& version : versions_.list()) {
    const std::string name = version.text();
    const std::lock_guard lock(mutex_);
    const auto refused = refused_.find(version);
    states.push_back({.version = name,
                      .ready = name == current && damaged.empty(),
                      .reason = name == current             ? damaged
                                : refused != refused_.end() ? refused->second.reason
                                                            : "not loaded"});
  }
  return states;
}

void ServedModel::record(const RecordedRequest& request) {
  const auto now = Clock::now();
  if (!versions_.may_grow() || request.keys.size() > kRecordedKeys) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || now < next_record_) return;
  next_record_ = now + std::chrono::milliseconds(100);
  if (recorded_.size() == kRecorded) recorded_.pop_front();
  recorded_.push_back(request);
}

}  // namespace hlite::serve
