#include "hugectr_lite/serve/http_service.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/serve/kserve.h"
#include "hugectr_lite/serve/status_page.h"
#include "hugectr_lite/serve/text_request.h"

namespace hlite::serve {

using nlohmann::json;

namespace {

std::vector<std::string> path_parts(const std::string& target) {
  std::vector<std::string> parts;
  for (size_t at = 1; at <= target.size();) {
    const size_t end = std::min(target.find('/', at), target.size());
    parts.push_back(target.substr(at, end - at));
    at = end + 1;
  }
  return parts;
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

// Counts and logs the answer.
Respond HttpService::logged(const HttpRequest& request, const Respond& respond) {
  return [this, respond,
          finished = Finished{.client = request.client,
                              .method = request.method,
                              .path = request.target,
                              .received = request.received,
                              .request_bytes = request.body.size()}](HttpAnswer answer) mutable {
    finished.answer_bytes = answer.body.size();
    finished.status = answer.status;
    service_.finished(finished);
    respond(std::move(answer));
  };
}

void HttpService::handle(HttpRequest request, const Respond& plain) {
  const Respond respond = logged(request, plain);
  try {
    if (!request.target.starts_with("/v2/health/")) service_.check_token(request.authorization);
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
        if (path.verb == "infer" || path.verb == "text") return infer(request, path, respond);
        return respond(answer_model(request, path));
      }
    }
    if (parts.size() >= 2 && parts[0] == "v2" && parts[1] == "repository")
      return answer_repository(request, parts, respond);
    respond(answer(request));
  } catch (...) {
    const Refusal refusal = current_refusal(request.method + " " + request.target);
    HttpAnswer answer = error_answer(refusal.status, refusal.message);
    if (refusal.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
    if (refusal.status == 503) answer.headers.emplace_back("Retry-After", "1");
    respond(std::move(answer));
  }
}

HttpAnswer HttpService::answer(const HttpRequest& request) {
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
    service_.check_ready();
    return {};
  }
  if (path == "/metrics") {
    if (!get) return method_error(request, "GET");
    return {.body = service_.metrics().text(), .type = "text/plain; version=0.0.4; charset=utf-8"};
  }
  return error_answer(404, fmt::format("expected a path of KServe v2 such as /v2/models/{}/infer, "
                                       "or /metrics, found {}",
                                       service_.models().begin()->first, path.substr(0, 200)));
}

HttpAnswer HttpService::page(const HttpRequest& request) const {
  std::vector<StatusEntry> models;
  for (const auto& [name, model] : service_.models()) {
    try {
      models.push_back({.description = model->current()->description});
    } catch (const RequestError& error) {
      models.push_back({.description = {.name = name, .versions = {}}, .error = error.what()});
    }
  }
  return {.body = status_page(models, request.host, service_.requires_token()),
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "img-src data:; connect-src 'self'"}}};
}

// /v2/repository/index and /v2/repository/models/M/load. `load` takes a version to stay with, or
// none to go on to the newest.
void HttpService::answer_repository(const HttpRequest& request,
                                    const std::vector<std::string>& parts, const Respond& respond) {
  const bool is_index = parts.size() == 3 && parts[2] == "index";
  const bool is_model = parts.size() == 5 && parts[2] == "models";
  if (!is_index && !(is_model && (parts[4] == "load" || parts[4] == "unload")))
    return respond(error_answer(
        404, fmt::format("expected /v2/repository/index or /v2/repository/models/M/load, found {}",
                         request.target.substr(0, 200))));
  if (request.method != "POST") return respond(method_error(request, "POST"));
  if (is_index) {
    json list = json::array();
    for (const auto& [name, model] : service_.models())
      for (const ServedModel::VersionState& state : model->index())
        list.push_back({{"name", name},
                        {"version", state.version},
                        {"state", state.ready ? "READY" : "UNAVAILABLE"},
                        {"reason", state.reason}});
    return respond({.body = list.dump(-1, ' ', false, json::error_handler_t::replace)});
  }
  ServedModel& model = service_.model(parts[3]);
  if (parts[4] == "unload")
    refuse("unload: expected load with another version, as a model that is served stays in memory");
  model.load(parse_load(request.body), [respond](const std::string& error) {
    respond(error.empty() ? HttpAnswer{.body = "{}"} : error_answer(400, error));
  });
}

HttpAnswer HttpService::answer_model(const HttpRequest& request, const ModelPath& path) {
  const ServedModel::Lease version = service_.version(path.name, path.version);
  if (path.verb != "" && path.verb != "ready")
    return error_answer(404, fmt::format("{}: expected \"ready\", \"infer\" or \"text\" after the "
                                         "model, found \"{}\"",
                                         request.target.substr(0, 200), path.verb.substr(0, 64)));
  if (request.method != "GET" && request.method != "HEAD") return method_error(request, "GET");
  if (path.verb == "ready") return {};
  return {.body = metadata_json(version->description)};
}

void HttpService::infer(const HttpRequest& request, const ModelPath& path, const Respond& respond) {
  if (request.method != "POST") return respond(method_error(request, "POST"));
  if (!request.content_encoding.empty() && request.content_encoding != "identity")
    throw RequestError(415, fmt::format("Content-Encoding: expected none, found {}",
                                        request.content_encoding.substr(0, 64)));
  const bool is_text = path.verb == "text";
  service_.infer(
      {.model = path.name, .version = path.version, .received = request.received},
      [&](const ModelDescription& model) {
        return is_text ? parse_lines(request.body, model)
                       : parse_infer(request.body, request.json_length, model);
      },
      [respond, is_text](const Inferred& inferred) {
        if (inferred.status != 200) return respond(error_answer(inferred.status, inferred.error));
        const LoadedVersion& version = inferred.version;
        if (is_text)
          return respond({.body = scores_as_lines(inferred.scores, version.scorer->tasks()),
                          .type = "text/plain; charset=utf-8"});
        respond(
            infer_http_answer(infer_answer(version.description, version.version, inferred.request,
                                           inferred.scores, version.scorer->tasks())));
      });
}

}  // namespace hlite::serve
