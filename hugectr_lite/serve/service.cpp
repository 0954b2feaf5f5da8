#include "hugectr_lite/serve/service.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "data_reader/history_check.h"
#include "hugectr_lite/core/log.h"

namespace hlite::serve {

namespace {

std::string quoted_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Constant time, so that timing reveals nothing about the token.
bool same_token(std::string_view found, const std::string& token) {
  unsigned difference = found.size() == token.size() ? 0 : 1;
  for (size_t i = 0; i < found.size(); ++i)
    difference |= static_cast<unsigned>(found[i] ^ token[i % token.size()]);
  return difference == 0;
}

// Repeats the only row of a tensor, so that it has `samples`: what all candidates of a request
// share is sent once.
template <typename T>
void repeat_row(std::vector<T>& values, int64_t samples) {
  const size_t width = values.size();
  values.resize(width * static_cast<size_t>(samples));
  for (int64_t i = 1; i < samples; ++i)
    std::copy_n(values.begin(), width, values.begin() + i * static_cast<int64_t>(width));
}

// The input of that name, or null.
InputTensor* find_input(InferRequest& request, std::string_view name) {
  const auto input = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [&](const InputTensor& t) { return t.spec->name == name; });
  return input == request.inputs.end() ? nullptr : &*input;
}

bool has_histories(const InferRequest& request) {
  return std::any_of(request.inputs.begin(), request.inputs.end(),
                     [](const InputTensor& input) { return input.spec->max_len > 0; });
}

// All key columns, which came in one tensor.
std::vector<int64_t> keys_alone(InferRequest& request, int64_t columns) {
  InputTensor& keys = *find_input(request, "keys");
  if (keys.shape[1] != columns)
    refuse("input \"keys\": expected shape [-1,{}], or the histories by themselves, found [{}]",
           columns, fmt::join(keys.shape, ","));
  return std::move(keys.integers);
}

// Writes the last keys of a list, which ends at its first -1, to max_len columns. Returns how many
// the list has; -1: a key comes after its end.
int64_t put_latest(std::span<const int64_t> list, int64_t max_len, int64_t* to) {
  const auto end = std::find(list.begin(), list.end(), -1);
  if (std::any_of(end, list.end(), [](int64_t key) { return key != -1; })) return -1;
  const int64_t n = std::min<int64_t>(end - list.begin(), max_len);
  std::fill(std::copy(end - n, end, to), to + max_len, -1);
  return end - list.begin();
}

// All key columns, of which those of histories came in tensors of their own.
std::vector<int64_t> put_together(InferRequest& request, const ModelDescription& model,
                                  int64_t samples, int64_t columns) {
  std::vector<int64_t> all(static_cast<size_t>(samples * columns));
  std::vector<bool> taken(static_cast<size_t>(columns));
  for (const TensorSpec& spec : model.inputs) {
    if (spec.max_len == 0) continue;
    const InputTensor& history = *find_input(request, spec.name);
    const int64_t slots = spec.shape[1], length = history.shape[2];
    std::fill_n(taken.begin() + spec.first_column, slots * spec.max_len, true);
    const std::span<const int64_t> lists = history.integers;
    for (int64_t i = 0; i < samples; ++i) {
      int64_t of_first = 0;
      for (int64_t s = 0; s < slots; ++s) {
        const int64_t column = i * columns + spec.first_column + s * spec.max_len;
        const int64_t found =
            put_latest(lists.subspan(static_cast<size_t>((i * slots + s) * length),
                                     static_cast<size_t>(length)),
                       spec.max_len, all.data() + column);
        if (s == 0) of_first = found;
        if (found < 0)
          refuse("input \"{}\": sample {}, slot {}: expected no key after an absent one (-1)",
                 spec.name, i, s);
        if (found != of_first)
          refuse("input \"{}\": sample {}, {}", spec.name, i,
                 data::HistoryCheck::uneven("slot 0", of_first, fmt::format("slot {}", s), found));
      }
    }
  }
  const InputTensor* const others = find_input(request, "keys");
  if (others == nullptr) return all;
  if (const auto left = std::count(taken.begin(), taken.end(), false); others->shape[1] != left)
    refuse("input \"keys\": expected shape [-1,{}] beside histories, found [{}]", left,
           fmt::join(others->shape, ","));
  const int64_t* key = others->integers.data();
  for (int64_t i = 0; i < samples; ++i)
    for (int64_t c = 0; c < columns; ++c)
      if (!taken[static_cast<size_t>(c)]) all[static_cast<size_t>(i * columns + c)] = *key++;
  return all;
}

// The samples of a request: lines of text, or features and keys, which must all be there and have
// as many rows. What these hold is moved to `recorded`.
SampleBlock samples_of(InferRequest& request, const LoadedVersion& version,
                       RecordedRequest& recorded) {
  Scorer& scorer = *version.scorer;
  int64_t samples = request.inputs.empty() ? 1 : request.inputs[0].shape[0];
  for (const InputTensor& input : request.inputs) samples = std::max(samples, input.shape[0]);
  if (const InputTensor* const text = find_input(request, "text")) {
    if (request.inputs.size() > 1)
      refuse("request: expected input \"text\" alone or without it all others, found both");
    if (samples == 0) refuse("request: expected at least 1 sample, found 0");
    return scorer.rows_of(text->texts);
  }
  const bool apart = has_histories(request);
  for (const TensorSpec& spec : version.description.inputs) {
    if (spec.name == "text" || (spec.max_len > 0 && !apart)) continue;
    InputTensor* const input = find_input(request, spec.name);
    if (input == nullptr && apart && spec.other_columns == 0) continue;
    if (input == nullptr)
      refuse("request: expected input \"{}\", found none of that name", spec.name);
    if (input->shape[0] != samples) {
      if (input->shape[0] != 1)
        refuse("input \"{}\": expected {} samples as the other inputs have, or 1 for all, found {}",
               spec.name, samples, input->shape[0]);
      repeat_row(input->floats, samples);
      repeat_row(input->integers, samples);
    }
  }
  if (samples == 0) refuse("request: expected at least 1 sample, found 0");
  if (InputTensor* const dense = find_input(request, "dense"))
    recorded.dense = std::move(dense->floats);
  recorded.keys = apart ? put_together(request, version.description, samples, scorer.key_columns())
                        : keys_alone(request, scorer.key_columns());
  const Matrix<const float> features(recorded.dense.data(), samples, scorer.data().dense_dim);
  const Matrix<const int64_t> ids(recorded.keys.data(), samples, scorer.key_columns());
  return scorer.rows_of({.labels = {}, .dense = features, .keys = ids});
}

}  // namespace

Refusal current_refusal(std::string_view request) {
  try {
    throw;
  } catch (const RequestError& error) {
    return {error.status(), error.what()};
  } catch (const DataError& error) {  // a key or feature of a sample
    return {400, error.what()};
  } catch (const std::exception& error) {
    log::warning("request {}: {}", request, error.what());
    return {500, error.what()};
  }
}

Service::Service(const ServiceOptions& options, const std::vector<ServedModelOptions>& models)
    : options_(options) {
  for (const ServedModelOptions& model : models)
    models_.emplace(model.name, std::make_unique<ServedModel>(model, metrics_));
}

void Service::check_token(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (options_.token.empty()) return;
  if (!authorization.starts_with(kScheme) ||
      !same_token(authorization.substr(kScheme.size()), options_.token))
    throw RequestError(401,
                       "expected the header Authorization: Bearer with this server's token, "
                       "found another one or none");
}

void Service::drain() {
  draining_ = true;
  for (const auto& [name, model] : models_) model->drain();
}

void Service::check_ready() const {
  if (draining_) throw RequestError(503, "the server is shutting down");
  for (const auto& [name, model] : models_) static_cast<void>(model->current());
}

ServedModel& Service::model(const std::string& name) const {
  const auto model = models_.find(name);
  if (model != models_.end()) return *model->second;
  std::vector<std::string_view> known;
  for (const auto& [other, ignored] : models_) known.push_back(other);
  throw RequestError(404, fmt::format("expected a model that is served ({}), found \"{}\"",
                                      fmt::join(known, ", "), name.substr(0, 64)));
}

ServedModel::Lease Service::version(const std::string& name, const std::string& version) const {
  ServedModel::Lease current = model(name).current();
  if (!version.empty() && version != current->version)
    throw RequestError(404, fmt::format("model \"{}\": expected version {}, found \"{}\"", name,
                                        current->version, version.substr(0, 64)));
  return current;
}

void Service::infer(const InferCall& call, const Parse& parse,
                    std::function<void(const Inferred&)> done) {
  const ServedModel::Lease version = this->version(call.model, call.version);
  try {
    submit(version, call, parse, std::move(done));
  } catch (...) {
    version->stats.failed(Clock::now() - call.received);
    throw;
  }
}

void Service::submit(const ServedModel::Lease& version, const InferCall& call, const Parse& parse,
                     std::function<void(const Inferred&)> done) {
  const RequestError full(503, "the queue of samples is full");
  if (version->scorer->full()) throw full;
  InferRequest request = parse(version->description);
  RecordedRequest recorded;
  SampleBlock samples = samples_of(request, *version, recorded);
  if (!recorded.keys.empty()) model(call.model).record(recorded);
  // A client may wait longer than the server's own deadline, but not hold the queue for ever.
  constexpr std::chrono::microseconds kLongest = std::chrono::minutes(1);
  const std::chrono::microseconds longest =
      std::max<std::chrono::microseconds>(kLongest, options_.deadline);
  const Clock::duration limit =
      request.timeout_us > 0 ? std::min(std::chrono::microseconds(request.timeout_us), longest)
                             : std::chrono::microseconds(options_.deadline);
  request.inputs.clear();
  ScoreJob job{.samples = std::move(samples),
               .received = call.received,
               .deadline = std::min(call.received + limit, call.latest),
               .done = [version, request = std::move(request), done = std::move(done),
                        received = call.received](ScoreResult result) {
                 // JSON has no NaN and no infinity.
                 if (!std::all_of(result.scores.begin(), result.scores.end(),
                                  [](float score) { return std::isfinite(score); }))
                   result = {.status = 500,
                             .error = "the model gives scores that are NaN or infinite"};
                 const auto all = Clock::now() - received;
                 if (result.status == 200)
                   version->stats.succeeded(
                       result.times, std::ssize(result.scores) / version->scorer->tasks(), all);
                 else
                   version->stats.failed(all);
                 done({.version = *version,
                       .request = request,
                       .status = result.status,
                       .error = result.error,
                       .scores = result.scores});
               }};
  if (!version->scorer->submit(job)) throw full;
}

// A line a request: time, client, what it asked for, status, milliseconds, bytes.
void Service::finished(const Finished& request) {
  if (request.status >= 400) metrics_.count_error(request.status);
  if (!options_.access_log) return;
  const std::chrono::duration<double, std::milli> took = Clock::now() - request.received;
  const std::string line = fmt::format(
      "{{\"time\":{:.3f},\"client\":{},\"method\":{},\"path\":{},\"status\":{},\"ms\":{:.3f},"
      "\"request_bytes\":{},\"answer_bytes\":{}}}\n",
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(),
      quoted_json(request.client), quoted_json(request.method), quoted_json(request.path),
      request.status, took.count(), request.request_bytes, request.answer_bytes);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace hlite::serve
