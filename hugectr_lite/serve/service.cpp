#include "hugectr_lite/serve/service.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/serve/status_page.h"

namespace hlite::serve {

using nlohmann::json;

namespace {

std::string quoted_json(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::string> path_parts(const std::string& target) {
  std::vector<std::string> parts;
  for (size_t at = 1; at <= target.size();) {
    const size_t end = std::min(target.find('/', at), target.size());
    parts.push_back(target.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Takes as long whatever `found` is, so that its time tells nothing of the token.
bool same_token(const std::string& found, const std::string& token) {
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
  for (const TensorSpec& spec : version.description.inputs) {
    if (spec.name == "text") continue;
    InputTensor* const input = find_input(request, spec.name);
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
  recorded.keys = std::move(find_input(request, "keys")->integers);
  const Matrix<const float> features(recorded.dense.data(), samples, scorer.data().dense_dim);
  const Matrix<const int64_t> ids(recorded.keys.data(), samples, scorer.key_columns());
  return scorer.rows_of({.labels = {}, .dense = features, .keys = ids});
}

HttpAnswer method_error(const HttpRequest& request, const char* expected) {
  HttpAnswer answer = error_answer(
      405, fmt::format("{}: expected {}, found {}", request.target, expected, request.method));
  answer.headers.emplace_back("Allow", expected);
  return answer;
}

HttpAnswer infer_http_answer(const InferAnswer& from) {
  HttpAnswer answer{.body = from.body};
  if (from.json_length > 0) {
    answer.type = "application/octet-stream";
    answer.headers.emplace_back("Inference-Header-Content-Length",
                                std::to_string(from.json_length));
  }
  return answer;
}

}  // namespace

Service::Service(const ServiceOptions& options, const std::vector<ServedModelOptions>& models)
    : options_(options) {
  for (const ServedModelOptions& model : models)
    models_.emplace(model.name, std::make_unique<ServedModel>(model, metrics_));
}

// A line a request: time, client, what it asked for, status, milliseconds, bytes.
Respond Service::logged(const HttpRequest& request, const Respond& respond) {
  return [this, respond, method = request.method, target = request.target, client = request.client,
          received = request.received, bytes = request.body.size()](HttpAnswer answer) {
    if (answer.status >= 400) metrics_.count_error(answer.status);
    if (options_.access_log) {
      const std::chrono::duration<double, std::milli> took = Clock::now() - received;
      const std::string line = fmt::format(
          "{{\"time\":{:.3f},\"client\":\"{}\",\"method\":{},\"path\":{},\"status\":{},\"ms\":{:."
          "3f},"
          "\"request_bytes\":{},\"answer_bytes\":{}}}\n",
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
              .count(),
          client, quoted_json(method), quoted_json(target), answer.status, took.count(), bytes,
          answer.body.size());
      std::fwrite(line.data(), 1, line.size(), stdout);
      std::fflush(stdout);
    }
    respond(std::move(answer));
  };
}

void Service::check_token(const HttpRequest& request) const {
  if (options_.token.empty() || request.target.starts_with("/v2/health/")) return;
  constexpr std::string_view kScheme = "Bearer ";
  if (!request.authorization.starts_with(kScheme) ||
      !same_token(request.authorization.substr(kScheme.size()), options_.token))
    throw RequestError(401,
                       "expected the header Authorization: Bearer with this server's token, "
                       "found another one or none");
}

void Service::handle(HttpRequest request, const Respond& plain) {
  const Respond respond = logged(request, plain);
  try {
    check_token(request);
    const std::vector<std::string> parts = path_parts(request.target);
    if (parts.size() >= 3 && parts[0] == "v2" && parts[1] == "models") {
      ModelPath path{.name = parts[2]};
      size_t next = 3;
      if (parts.size() >= 5 && parts[3] == "versions") {
        path.version = parts[4];
        next = 5;
      }
      if (parts.size() == next + 1) path.verb = parts[next];
      if (parts.size() <= next + 1) {
        if (path.verb == "infer") return infer(request, path, respond);
        return respond(answer_model(request, path));
      }
    }
    if (parts.size() >= 2 && parts[0] == "v2" && parts[1] == "repository")
      return answer_repository(request, parts, respond);
    respond(answer(request));
  } catch (const RequestError& error) {
    HttpAnswer answer = error_answer(error.status(), error.what());
    if (error.status() == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
    if (error.status() == 503) answer.headers.emplace_back("Retry-After", "1");
    respond(std::move(answer));
  } catch (const DataError& error) {  // a key or feature of a sample
    respond(error_answer(400, error.what()));
  } catch (const std::exception& error) {
    log::warning("request {} {}: {}", request.method, request.target, error.what());
    respond(error_answer(500, error.what()));
  }
}

HttpAnswer Service::answer(const HttpRequest& request) {
  const std::string& path = request.target;
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (path == "/v2" || path == "/v2/") {
    if (!get) return method_error(request, "GET");
    return {.body = json{{"name", "hugectr_lite"},
                         {"version", std::string(kVersion)},
                         {"extensions", {"binary_tensor_data", "model_repository"}}}
                        .dump()};
  }
  if (path == "/") return get ? page(request) : method_error(request, "GET");
  if (path == "/v2/health/live") return get ? HttpAnswer{} : method_error(request, "GET");
  if (path == "/v2/health/ready") {
    if (!get) return method_error(request, "GET");
    if (draining_) return error_answer(503, "the server is shutting down");
    for (const auto& [name, model] : models_) static_cast<void>(model->current());  // or 503
    return {};
  }
  if (path == "/metrics") {
    if (!get) return method_error(request, "GET");
    return {.body = metrics_.text(), .type = "text/plain; version=0.0.4; charset=utf-8"};
  }
  return error_answer(404, fmt::format("expected a path of KServe v2 such as /v2/models/{}/infer, "
                                       "or /metrics, found {}",
                                       models_.begin()->first, path.substr(0, 200)));
}

HttpAnswer Service::page(const HttpRequest& request) const {
  std::vector<StatusEntry> models;
  for (const auto& [name, model] : models_) {
    try {
      models.push_back({.description = model->current()->description});
    } catch (const RequestError& error) {
      models.push_back({.description = {.name = name, .versions = {}}, .error = error.what()});
    }
  }
  return {.body = status_page(models, request.host, !options_.token.empty()),
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "img-src data:; connect-src 'self'"}}};
}

ServedModel& Service::model_of(const std::string& name) const {
  const auto model = models_.find(name);
  if (model != models_.end()) return *model->second;
  std::vector<std::string_view> known;
  for (const auto& [other, ignored] : models_) known.push_back(other);
  throw RequestError(404, fmt::format("expected a model that is served ({}), found \"{}\"",
                                      fmt::join(known, ", "), name.substr(0, 64)));
}

ServedModel::Lease Service::version_of(const ModelPath& path) const {
  ServedModel::Lease version = model_of(path.name).current();
  if (!path.version.empty() && path.version != version->version)
    throw RequestError(404, fmt::format("model \"{}\": expected version {}, found \"{}\"",
                                        path.name, version->version, path.version.substr(0, 64)));
  return version;
}

// /v2/repository/index and /v2/repository/models/M/load. `load` takes a version to stay with, or
// none to go on to the newest.
void Service::answer_repository(const HttpRequest& request, const std::vector<std::string>& parts,
                                const Respond& respond) {
  const bool is_index = parts.size() == 3 && parts[2] == "index";
  const bool is_model = parts.size() == 5 && parts[2] == "models";
  if (!is_index && !(is_model && (parts[4] == "load" || parts[4] == "unload")))
    return respond(error_answer(
        404, fmt::format("expected /v2/repository/index or /v2/repository/models/M/load, found {}",
                         request.target.substr(0, 200))));
  if (request.method != "POST") return respond(method_error(request, "POST"));
  if (is_index) {
    json list = json::array();
    for (const auto& [name, model] : models_)
      for (const ServedModel::VersionState& state : model->index())
        list.push_back({{"name", name},
                        {"version", state.version},
                        {"state", state.ready ? "READY" : "UNAVAILABLE"},
                        {"reason", state.reason}});
    return respond({.body = list.dump(-1, ' ', false, json::error_handler_t::replace)});
  }
  ServedModel& model = model_of(parts[3]);
  if (parts[4] == "unload")
    refuse("unload: expected load with another version, as a model that is served stays in memory");
  model.load(parse_load(request.body), [respond](const std::string& error) {
    respond(error.empty() ? HttpAnswer{.body = "{}"} : error_answer(400, error));
  });
}

HttpAnswer Service::answer_model(const HttpRequest& request, const ModelPath& path) {
  const ServedModel::Lease version = version_of(path);
  if (path.verb != "" && path.verb != "ready")
    return error_answer(404, fmt::format("{}: expected \"ready\" or \"infer\" after the model, "
                                         "found \"{}\"",
                                         request.target.substr(0, 200), path.verb.substr(0, 64)));
  if (request.method != "GET" && request.method != "HEAD") return method_error(request, "GET");
  if (path.verb == "ready") return {};
  return {.body = metadata_json(version->description)};
}

void Service::infer(const HttpRequest& request, const ModelPath& path, const Respond& respond) {
  const ServedModel::Lease version = version_of(path);
  if (request.method != "POST") return respond(method_error(request, "POST"));
  if (!request.content_encoding.empty() && request.content_encoding != "identity")
    throw RequestError(415, fmt::format("Content-Encoding: expected none, found {}",
                                        request.content_encoding.substr(0, 64)));
  const RequestError full(503, "expected room in the queue of samples, found it full");
  if (version->scorer->full()) throw full;
  InferRequest infer = parse_infer(request.body, request.json_length, version->description);
  RecordedRequest recorded;
  SampleBlock samples = samples_of(infer, *version, recorded);
  if (!recorded.keys.empty()) model_of(path.name).record(recorded);
  const auto deadline = infer.timeout_us > 0
                            ? std::chrono::duration_cast<Clock::duration>(std::chrono::microseconds(
                                  std::min<int64_t>(infer.timeout_us, 3'600'000'000)))
                            : Clock::duration(options_.deadline);
  ScoreJob job{.samples = std::move(samples),
               .received = request.received,
               .deadline = request.received + deadline,
               .done = {}};
  infer.inputs.clear();
  job.done = [version, infer = std::move(infer), respond](ScoreResult result) {
    if (result.status != 200) return respond(error_answer(result.status, result.error));
    try {
      respond(infer_http_answer(infer_answer(version->description, version->version, infer,
                                             result.scores, version->scorer->tasks())));
    } catch (const RequestError& error) {
      respond(error_answer(error.status(), error.what()));
    }
  };
  if (!version->scorer->submit(job)) throw full;
}

}  // namespace hlite::serve
