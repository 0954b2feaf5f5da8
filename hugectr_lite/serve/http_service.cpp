#include "hugectr_lite/serve/http_service.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
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

[[noreturn]] void refuse_method(const HttpHead& head, const char* expected) {
  throw RequestError(405, fmt::format("{}: expected {}, found {}", head.target.substr(0, 200),
                                      expected, head.method.substr(0, 32)));
}
void expect_get(const HttpHead& head) {
  if (head.method != "GET" && head.method != "HEAD") refuse_method(head, "GET");
}
void expect_post(const HttpHead& head) {
  if (head.method != "POST") refuse_method(head, "POST");
}

// The host of "http://host:port" or of "host:port", without the port.
std::string_view host_of(std::string_view text) {
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos)
    text.remove_prefix(scheme + 3);
  const size_t colon = text.rfind(':');
  return colon == std::string_view::npos || text.ends_with(']') ? text : text.substr(0, colon);
}
std::string_view authority_of(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}
// Names that no page's server can have: those of this machine, and addresses.
bool is_own_name(std::string_view host) {
  return host == "localhost" || host.starts_with('[') ||
         (!host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

// The answer for the exception that is being handled.
HttpAnswer refusal_answer(const HttpHead& head) {
  const Refusal refusal = current_refusal(head.method + " " + head.target);
  HttpAnswer answer = error_answer(refusal.status, refusal.message);
  if (refusal.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (refusal.status == 405)
    answer.headers.emplace_back("Allow", head.method == "POST" ? "GET" : "POST");
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

VersionStats stats_of(const LoadedVersion& version) {
  return {.model = version.description.name,
          .version = version.version,
          .counts = version.stats.counts(),
          .executions = version.scorer->executions()};
}

// What GET of a path below a model is answered with.
HttpAnswer answer_of(const std::string& verb, const LoadedVersion& version) {
  if (verb == "ready") return {};
  if (verb == "config") return {.body = config_json(version.description)};
  if (verb == "stats") return {.body = stats_json(std::array{stats_of(version)})};
  return {.body = metadata_json(version.description)};
}

}  // namespace

// Counts and logs the answer.
Respond HttpService::logged(const HttpHead& head, Clock::time_point received, size_t bytes,
                            const Respond& respond) {
  return [this, respond,
          finished = Finished{.client = head.client,
                              .method = head.method,
                              .path = head.target,
                              .received = received,
                              .request_bytes = bytes}](HttpAnswer answer) mutable {
    finished.answer_bytes = answer.body.size();
    finished.status = answer.status;
    service_.finished(finished);
    respond(std::move(answer));
  };
}

Admission HttpService::admit(const HttpHead& head) {
  Route route;
  try {
    if (!head.target.starts_with("/v2/health/")) service_.check_token(head.authorization);
    if (!head.content_encoding.empty() && head.content_encoding != "identity")
      throw RequestError(415, fmt::format("Content-Encoding: expected none, found {}",
                                          head.content_encoding.substr(0, 64)));
    route = this->route(head);
  } catch (...) {
    Admission refused{.refusal = refusal_answer(head)};
    logged(head, Clock::now(), 0, [](const HttpAnswer&) {})(*refused.refusal);
    return refused;
  }
  return {
      .max_body = route.max_body,
      .handle = [this, work = std::move(route.work)](HttpRequest request, const Respond& plain) {
        const Respond respond = logged(request, request.received, request.body.size(), plain);
        const auto answer = [work](HttpRequest& of, const Respond& to) {
          try {
            work(of, to);
          } catch (...) {
            to(refusal_answer(of));
          }
        };
        if (std::ssize(request.body) <= kQuickBody) return answer(request, respond);
        const auto kept = std::make_shared<HttpRequest>(std::move(request));
        boost::asio::post(readers_, [answer, kept, respond] { answer(*kept, respond); });
      }};
}

HttpService::Route HttpService::route(const HttpHead& head) {
  const std::string& path = head.target;
  const auto at_once = [](auto make) {
    return Route{
        .work = [make](HttpRequest& request, const Respond& respond) { respond(make(request)); }};
  };
  const std::vector<std::string> parts = path_parts(path);
  // A model may have that name all the same.
  if (path == "/v2/models/stats" && !service_.models().contains("stats")) {
    expect_get(head);
    return at_once([this](const HttpHead&) { return all_stats(); });
  }
  if (parts.size() >= 3 && parts[0] == "v2" && parts[1] == "models") {
    ModelPath model{.name = parts[2]};
    size_t next = 3;
    if (parts.size() >= 5 && parts[3] == "versions") {
      model.version = parts[4];
      next = 5;
    }
    if (parts.size() == next + 1) model.verb = parts[next];
    if (parts.size() <= next + 1) return model_route(head, model);
  }
  if (parts.size() >= 2 && parts[0] == "v2" && parts[1] == "repository")
    return repository_route(head, parts);
  const bool known = path == "/v2" || path == "/v2/" || path == "/" || path == "/metrics" ||
                     path == "/v2/health/live" || path == "/v2/health/ready";
  if (!known)
    throw RequestError(404, fmt::format("expected a path of KServe v2 such as /v2/models/{}/infer, "
                                        "or /metrics, found {}",
                                        service_.models().begin()->first, path.substr(0, 200)));
  expect_get(head);
  if (path == "/") return at_once([this](const HttpHead& of) { return page(of); });
  if (path == "/metrics")
    return at_once([this](const HttpHead&) {
      return HttpAnswer{.body = service_.metrics().text(),
                        .type = "text/plain; version=0.0.4; charset=utf-8"};
    });
  if (path == "/v2/health/ready")
    return at_once([this](const HttpHead&) {
      service_.check_ready();
      return HttpAnswer{};
    });
  if (path == "/v2/health/live") return at_once([](const HttpHead&) { return HttpAnswer{}; });
  return at_once([](const HttpHead&) {
    return HttpAnswer{.body = json{{"name", "hugectr_lite"},
                                   {"version", std::string(kVersion)},
                                   {"extensions",
                                    {"binary_tensor_data", "model_configuration",
                                     "model_repository", "statistics"}}}
                                  .dump()};
  });
}

HttpAnswer HttpService::page(const HttpHead& head) const {
  std::vector<StatusEntry> models;
  for (const auto& [name, model] : service_.models()) {
    try {
      models.push_back({.description = model->current()->description});
    } catch (const RequestError& error) {
      models.push_back({.description = {.name = name, .versions = {}}, .error = error.what()});
    }
  }
  return {.body = status_page(models, head.host, service_.requires_token()),
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "img-src data:; connect-src 'self'"}}};
}

// A page of another site may send requests of these kinds through the browser of someone who can
// reach the server. Browsers say where the page is from; a page whose name was rebound to this
// machine's address gives itself away by that name.
void HttpService::check_consent(const HttpHead& head) const {
  const auto refuse_client = [](const std::string& message) { throw RequestError(403, message); };
  if (!head.origin.empty() && authority_of(head.origin) != head.host)
    refuse_client(
        fmt::format("expected a request of this server's own pages ({}), found Origin: {}",
                    head.host.substr(0, 200), head.origin.substr(0, 200)));
  if (!head.content_type.empty() &&
      head.content_type.substr(0, head.content_type.find(';')) != "application/json")
    throw RequestError(415, fmt::format("Content-Type: expected application/json, found {}",
                                        head.content_type.substr(0, 64)));
  if (service_.requires_token()) return;
  if (!head.loopback)
    refuse_client(
        "expected a client on the server's machine, as no token is asked for; with serve "
        "--token-file others may change what is served");
  if (!is_own_name(host_of(head.host)))
    refuse_client(
        fmt::format("expected Host: localhost or an address, as no token is asked for, "
                    "found {}",
                    head.host.substr(0, 200)));
}

// /v2/repository/index and /v2/repository/models/M/load. `load` takes a version to stay with, or
// none to go on to the newest.
HttpService::Route HttpService::repository_route(const HttpHead& head,
                                                 const std::vector<std::string>& parts) {
  const bool is_index = parts.size() == 3 && parts[2] == "index";
  const bool is_model = parts.size() == 5 && parts[2] == "models";
  if (!is_index && !(is_model && (parts[4] == "load" || parts[4] == "unload")))
    throw RequestError(
        404, fmt::format("expected /v2/repository/index or /v2/repository/models/M/load, found {}",
                         head.target.substr(0, 200)));
  expect_post(head);
  if (is_index) return {.work = [this](HttpRequest&, const Respond& respond) { respond(index()); }};
  check_consent(head);
  ServedModel& model = service_.model(parts[3]);
  if (parts[4] == "unload")
    refuse("unload: expected load with another version, as a model that is served stays in memory");
  return {.work = [&model](HttpRequest& request, const Respond& respond) {
    model.load(parse_load(request.body), [respond](const std::string& error) {
      respond(error.empty() ? HttpAnswer{.body = "{}"} : error_answer(400, error));
    });
  }};
}

HttpAnswer HttpService::index() const {
  json list = json::array();
  for (const auto& [name, model] : service_.models())
    for (const ServedModel::VersionState& state : model->index())
      list.push_back({{"name", name},
                      {"version", state.version},
                      {"state", state.ready ? "READY" : "UNAVAILABLE"},
                      {"reason", state.reason}});
  return {.body = list.dump(-1, ' ', false, json::error_handler_t::replace)};
}

// A model that is not served has none.
HttpAnswer HttpService::all_stats() const {
  std::vector<VersionStats> versions;
  for (const auto& [name, model] : service_.models()) {
    try {
      versions.push_back(stats_of(*model->current()));
    } catch (const RequestError&) {
      continue;
    }
  }
  return {.body = stats_json(versions)};
}

HttpService::Route HttpService::model_route(const HttpHead& head, const ModelPath& path) {
  if (path.verb == "infer" || path.verb == "text") {
    expect_post(head);
    static_cast<void>(service_.version(path.name, path.version));
    return {.work = [this, path](HttpRequest& request,
                                 const Respond& respond) { infer(request, path, respond); },
            .max_body = max_body_};
  }
  static_cast<void>(service_.version(path.name, path.version));
  const bool known =
      path.verb == "" || path.verb == "ready" || path.verb == "config" || path.verb == "stats";
  if (!known)
    throw RequestError(404,
                       fmt::format("{}: expected \"ready\", \"config\", \"stats\", \"infer\" or "
                                   "\"text\" after the model, found \"{}\"",
                                   head.target.substr(0, 200), path.verb.substr(0, 64)));
  expect_get(head);
  return {.work = [this, path](HttpRequest&, const Respond& respond) {
    respond(answer_of(path.verb, *service_.version(path.name, path.version)));
  }};
}

void HttpService::infer(const HttpRequest& request, const ModelPath& path, const Respond& respond) {
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
