#include "hugectr_lite/serve/grpc/grpc_server.h"

#include <algorithm>
#include <utility>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/plugin_file.h"

namespace hlite::serve::grpc {

namespace {

constexpr int64_t kRetryMs = 1000;
// A client may say that it waits for centuries, which no clock can count.
constexpr int64_t kLongestDeadlineUs = 3'600'000'000;

// gRPC's status for HTTP's.
int32_t code_of(int status) {
  switch (status) {
    case 400:
      return 3;  // INVALID_ARGUMENT
    case 401:
      return 16;  // UNAUTHENTICATED
    case 404:
      return 5;  // NOT_FOUND
    case 413:
      return 8;  // RESOURCE_EXHAUSTED
    case 503:
      return 14;  // UNAVAILABLE
    case 504:
      return 4;  // DEADLINE_EXCEEDED
    default:
      return 13;  // INTERNAL
  }
}

InferRequest parse_tensors(const Request& from, const ModelDescription& model) {
  InferBuilder builder(model, from.bytes);
  builder.set_id(from.id);
  builder.request.binary = from.raw;
  builder.request.timeout_us = from.timeout_us;
  if (from.timeout_us < 0)
    hlite::serve::refuse("parameters.timeout: expected microseconds, found {}", from.timeout_us);
  for (const Tensor& tensor : from.inputs) {
    auto input = builder.open(tensor.name);
    builder.describe(input, tensor.datatype, {tensor.shape.begin(), tensor.shape.end()});
    if (tensor.texts.empty()) {
      InferBuilder::append_binary(input, tensor.bytes);
    } else {
      input.tensor.texts.assign(tensor.texts.begin(), tensor.texts.end());
    }
    builder.close(std::move(input));
  }
  for (const Output& output : from.outputs) builder.check_output(output.name, output.classified);
  return std::move(builder.request);
}

std::vector<TensorInfo> infos_of(const std::vector<TensorSpec>& specs) {
  std::vector<TensorInfo> infos;
  for (const TensorSpec& spec : specs)
    infos.push_back({.name = spec.name, .datatype = name_of(spec.type), .shape = spec.shape});
  return infos;
}

}  // namespace

const Plugin& require_plugin() {
  static const OpenedPlugin opened =
      open_plugin({.name = "gRPC",
                   .library = kLibraryName,
                   .entry = kEntryName,
                   .variable = "HLITE_GRPC_LIBRARY",
                   .advice = "--grpc-port needs gRPC: tools/setup.sh installs it (libgrpc++-dev, "
                             "libprotobuf-dev, protobuf-compiler); then configure and build again",
                   .version = kInterfaceVersion});
  if (!opened.table) throw ConfigError(opened.reason);
  return *static_cast<const Plugin*>(opened.table);
}

GrpcServer::GrpcServer(const HttpOptions& limits, uint16_t port, Service& service)
    : plugin_(require_plugin()), service_(service), drain_(limits.drain) {
  const Options options{.host = limits.host.c_str(),
                        .port = port,
                        .max_calls = limits.max_connections,
                        .max_bytes = limits.max_body,
                        .idle_ms = limits.idle.count(),
                        .request_ms = limits.request.count(),
                        .handle =
                            [](void* self, Call* call, const Request* request) noexcept {
                              static_cast<GrpcServer*>(self)->handle(call, *request);
                            },
                        .context = this};
  server_ = plugin_.start(&options);
  if (server_ == nullptr)
    raise<ConfigError>("--host {} --grpc-port {}: cannot listen: expected a free port", limits.host,
                       port);
  port_ = plugin_.port(server_);
}

void GrpcServer::stop() {
  if (Server* const server = std::exchange(server_, nullptr)) plugin_.stop(server, drain_.count());
}

void GrpcServer::send(Call* call, const Answer& answer, Finished finished) {
  finished.answer_bytes = static_cast<size_t>(plugin_.answer(call, &answer));
  service_.finished(finished);
}

void GrpcServer::refuse(Call* call, const Refusal& refusal, Finished finished) {
  finished.status = refusal.status;
  send(call,
       {.code = code_of(refusal.status),
        .message = refusal.message,
        .retry_ms = refusal.status == 503 ? kRetryMs : -1},
       std::move(finished));
}

void GrpcServer::handle(Call* call, const Request& request) {
  const Finished finished{.client = std::string(request.client),
                          .method = "gRPC",
                          .path = std::string(request.path),
                          .received = Clock::now(),
                          .request_bytes = static_cast<size_t>(request.bytes)};
  const std::string model(request.model), version(request.version);
  const auto is_true = [](const auto& check) {
    try {
      check();
      return true;
    } catch (const RequestError& error) {
      if (error.status() != 503) throw;
      return false;
    }
  };
  try {
    if (request.method != Method::kServerLive && request.method != Method::kServerReady)
      service_.check_token(request.authorization);
    switch (request.method) {
      case Method::kServerLive:
        return send(call, {}, finished);
      case Method::kServerReady:
        return send(call, {.yes = is_true([&] { service_.check_ready(); })}, finished);
      case Method::kModelReady:
        return send(call, {.yes = is_true([&] { (void)service_.version(model, version); })},
                    finished);
      case Method::kServerMetadata: {
        constexpr std::string_view kExtensions[] = {"binary_tensor_data"};
        return send(call, {.name = "hugectr_lite", .version = kVersion, .list = kExtensions},
                    finished);
      }
      case Method::kModelMetadata: {
        const ServedModel::Lease lease = service_.version(model, version);
        const auto inputs = infos_of(lease->description.inputs);
        const auto outputs = infos_of(lease->description.outputs);
        const std::string_view versions[] = {lease->version};
        return send(call, {.name = model, .list = versions, .inputs = inputs, .outputs = outputs},
                    finished);
      }
      case Method::kModelInfer:
        return infer(call, request, finished);
    }
  } catch (...) {
    refuse(call, current_refusal(request.path), finished);
  }
}

void GrpcServer::infer(Call* call, const Request& request, const Finished& finished) {
  InferCall wanted{.model = std::string(request.model),
                   .version = std::string(request.version),
                   .received = finished.received};
  if (request.deadline_us >= 0)
    wanted.latest = finished.received +
                    std::chrono::microseconds(std::min(request.deadline_us, kLongestDeadlineUs));
  service_.infer(
      wanted, [&](const ModelDescription& model) { return parse_tensors(request, model); },
      [this, call, finished](const Inferred& inferred) {
        if (inferred.status != 200)
          return refuse(call, {inferred.status, inferred.error}, finished);
        const LoadedVersion& version = inferred.version;
        const int64_t tasks = version.scorer->tasks();
        const int64_t shape[] = {std::ssize(inferred.scores) / tasks, tasks};
        const TensorSpec& output = version.description.outputs[0];
        const TensorInfo info[] = {
            {.name = output.name, .datatype = name_of(output.type), .shape = shape}};
        send(call,
             {.name = version.description.name,
              .version = version.version,
              .outputs = info,
              .id = inferred.request.id,
              .raw = inferred.request.binary,
              .scores = inferred.scores},
             finished);
      });
}

}  // namespace hlite::serve::grpc
