// serve: the command line.
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/preparation/io/command_line.h"
#include "hugectr_lite/serve/grpc/grpc_server.h"
#include "hugectr_lite/serve/http_service.h"

namespace {

using namespace hlite;

struct Options {
  std::vector<std::string> models, deltas;
  serve::ScorerOptions scorer;
  serve::HttpOptions http;
  serve::ServiceOptions service;
  std::optional<uint16_t> grpc_port;
  std::string token_file;
  int64_t max_delay_us = 0, deadline_ms = 1000, max_body_mb = 64, idle_s = 60, request_s = 10,
          drain_s = 10, drain_delay_ms = 500, max_bodies_mb = 128, poll_ms = 1000;
  bool quiet = false;
};

void define(CLI::App& app, Options& o) {
  app.add_option("--model", o.models,
                 "A checkpoint, a folder of them as 1/, 2/, ..., of which the newest is served, or "
                 "exported weights (needs --config), as [NAME=]PATH; repeatable")
      ->required()
      ->type_name("[NAME=]DIR")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--deltas", o.deltas,
                 "The chain of deltas (train --save-delta) that begins at a version of the model: "
                 "each link that comes makes a newer version, as [NAME=]CHAIN; repeatable")
      ->type_name("[NAME=]DIR")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--config", o.scorer.run.config, "The models' config [the checkpoint's]")
      ->type_name("FILE");
  app.add_option("--host", o.http.host, "Address to listen on")->capture_default_str();
  app.add_option("--port", o.http.port, "Port to listen on; 0: a free one")->capture_default_str();
  app.add_option("--grpc-port", o.grpc_port,
                 "Also answer over gRPC, on this port; 0: a free one (needs the gRPC plug-in)");
  app.add_option("--max-batch", o.scorer.max_batch, "Samples scored at once")
      ->check(whole_number(1, 8192))
      ->capture_default_str();
  app.add_option("--max-delay-us", o.max_delay_us,
                 "Microseconds that a batch waits for more samples")
      ->check(whole_number(0, 3'600'000'000))
      ->capture_default_str();
  app.add_option("--max-samples", o.scorer.max_samples,
                 "Samples of a request; larger ones are answered with 413")
      ->check(whole_number(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--max-queue", o.scorer.max_queue,
                 "Samples that may wait; requests beyond are answered with 503")
      ->check(whole_number(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--deadline-ms", o.deadline_ms,
                 "Time within which scoring must begin, else 504; a request's own \"timeout\" "
                 "parameter takes precedence")
      ->check(whole_number(1, 3'600'000))
      ->capture_default_str();
  app.add_option("--max-body-mb", o.max_body_mb, "Largest body of a request, in MiB")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  app.add_option("--max-bodies-mb", o.max_bodies_mb,
                 "Memory of the bodies of all requests together, in MiB; requests beyond are "
                 "answered with 503")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections", o.http.max_connections, "Connections at a time")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--idle-s", o.idle_s, "Seconds that a connection may be idle")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
  app.add_option("--request-s", o.request_s,
                 "Seconds within which a request must arrive once begun, and its answer be taken")
      ->check(whole_number(1, 3'600))
      ->capture_default_str();
  app.add_option("--drain-s", o.drain_s, "Seconds that SIGTERM leaves to requests at hand")
      ->check(whole_number(0, 3'600))
      ->capture_default_str();
  app.add_option("--drain-delay-ms", o.drain_delay_ms,
                 "Milliseconds after SIGTERM for which connections are still taken, while "
                 "/v2/health/ready says 503")
      ->check(whole_number(0, 3'600'000))
      ->capture_default_str();
  app.add_option("--poll-ms", o.poll_ms, "Milliseconds between looks for newer versions")
      ->check(whole_number(10, 3'600'000))
      ->capture_default_str();
  app.add_option("--token-file", o.token_file,
                 "Requests other than health checks need the file's first line as bearer token")
      ->type_name("FILE");
  app.add_flag("--access-log", o.service.access_log,
               "Print a line of JSON for each request on standard output");
  app.add_option_function<std::string>(
         "--device",
         [&o](const std::string& name) { o.scorer.run.device = config::device_choice(name); },
         "auto, cpu or cuda [solver.device, else auto]")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--threads", o.scorer.run.threads, "CPU threads that score, a model [all]")
      ->check(whole_number(1, kMaxThreads));
  app.add_flag_callback(
      "--no-verify", [&o] { o.scorer.verify = false; },
      "Start without reading all weights, whose checksums then are not checked");
  app.add_flag("--quiet", o.quiet, "Print nothing but warnings and errors");
}

std::string token_in(const std::string& path) {
  std::string token = read_text(ReadFile(path), 4096);
  token.resize(std::min(token.find_first_of("\r\n"), token.size()));
  if (token.empty())
    raise<ConfigError>("--token-file {}: expected a token in its first line, found none", path);
  return token;
}

// [NAME=]PATH; without a name, the last part of the path.
serve::ServedModelOptions named_model(const std::string& text, const serve::ScorerOptions& scorer) {
  const size_t equals = text.find('=');
  serve::ServedModelOptions model{.scorer = scorer};
  model.scorer.model = equals == std::string::npos ? text : text.substr(equals + 1);
  model.name = equals == std::string::npos
                   ? std::filesystem::path(text + "/").parent_path().stem().string()
                   : text.substr(0, equals);
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  if (model.name.empty() || !std::all_of(model.name.begin(), model.name.end(), fits))
    raise<ConfigError>(
        "--model {}: expected a name of letters, digits, \"_\", \"-\" and \".\" before \"=\", "
        "found \"{}\"",
        text, model.name);
  return model;
}

std::vector<serve::ServedModelOptions> models_of(const Options& options) {
  std::vector<serve::ServedModelOptions> models;
  for (const std::string& text : options.models) {
    models.push_back(named_model(text, options.scorer));
    models.back().poll = std::chrono::milliseconds(options.poll_ms);
    for (size_t i = 0; i + 1 < models.size(); ++i)
      if (models[i].name == models.back().name)
        raise<ConfigError>("--model {}: expected a name of its own, found \"{}\" twice", text,
                           models.back().name);
  }
  for (const std::string& text : options.deltas) {
    const size_t equals = text.find('=');
    const auto model = std::find_if(models.begin(), models.end(), [&](const auto& of) {
      return equals == std::string::npos ? models.size() == 1 : of.name == text.substr(0, equals);
    });
    if (model == models.end() || !model->deltas.empty())
      raise<ConfigError>(
          "--deltas {}: expected a chain for each model at most, as NAME=CHAIN with the name of a "
          "--model",
          text);
    model->deltas = equals == std::string::npos ? text : text.substr(equals + 1);
  }
  return models;
}

void run(Options& o) {
  if (o.quiet) log::set_level(log::Level::kWarning);
  // Bodies of requests go back to the system when they end. Without this glibc raises its threshold
  // with the first large one, and later ones leave holes in the heap.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
  o.scorer.max_delay = std::chrono::microseconds(o.max_delay_us);
  o.service.deadline = std::chrono::milliseconds(o.deadline_ms);
  o.http.max_body = o.max_body_mb << 20;
  o.http.max_bodies = o.max_bodies_mb << 20;
  o.http.drain_delay = std::chrono::milliseconds(o.drain_delay_ms);
  o.http.idle = std::chrono::seconds(o.idle_s);
  o.http.request = std::chrono::seconds(o.request_s);
  o.http.drain = std::chrono::seconds(o.drain_s);
  if (!o.token_file.empty()) o.service.token = token_in(o.token_file);
  // Signals are taken by one thread, which may do what a handler may not.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const BrokenPipeGuard pipes;
  if (o.grpc_port) serve::grpc::require_plugin();
  serve::Service service(o.service, models_of(o));
  serve::HttpService answers(service, o.http.max_body);
  serve::HttpServer* http = nullptr;
  serve::HttpServer server(o.http, [&](const serve::HttpHead& head) {
    if (head.target == "/metrics") answers.set_counts(http->counts());
    return answers.admit(head);
  });
  http = &server;
  std::optional<serve::grpc::GrpcServer> grpc;
  if (o.grpc_port) grpc.emplace(o.http, *o.grpc_port, service);
  std::thread waiter([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    server.stop();  // first, so that what drain() answers ends its connection
    service.drain();
    if (grpc) {
      std::this_thread::sleep_for(o.http.drain_delay);
      grpc->stop();
    }
  });
  const bool v6 = o.http.host.find(':') != std::string::npos;
  fmt::print("serving on http://{}{}{}:{}{}\n", v6 ? "[" : "", o.http.host, v6 ? "]" : "",
             server.port(), grpc ? fmt::format(" and by gRPC on port {}", grpc->port()) : "");
  std::fflush(stdout);
  server.run();
  waiter.join();
  log::info("drained; the end");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const prep::ToolDescription description{
      "serve",
      "Answers requests for scores over HTTP, in the KServe v2 protocol, with JSON or binary "
      "tensors, and over gRPC. A score has the bits that an evaluation of train gives the sample.",
      "  serve --model checkpoint --port 8080\n"
      "  serve --model ctr=checkpoint --model cvr=other --token-file token\n"
      "  curl localhost:8080/v2/models/ctr\n"};
  return prep::run_tool(
      argc, argv, description, [&](CLI::App& app) { define(app, options); }, [&] { run(options); });
}
