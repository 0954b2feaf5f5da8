// The plug-in exports a gRPC server for KServe v2's messages (grpc_plugin.h).
//
// One generic service takes all methods and reads their messages itself, so that it can limit the
// number of calls and the time until a message has come.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <inference.pb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hugectr_lite/serve/grpc/grpc_plugin.h"

namespace hlite::serve::grpc {

using Clock = std::chrono::steady_clock;
using ::grpc::Status;
using ::grpc::StatusCode;
template <typename Message>
using Wire = ::grpc::SerializationTraits<Message>;

struct Server final : ::grpc::CallbackGenericService {
  ::grpc::ServerGenericBidiReactor* CreateReactor(
      ::grpc::GenericCallbackServerContext* context) override;
  void watch();

  Options options;
  std::unique_ptr<::grpc::Server> server;
  int port = 0;
  std::atomic<int32_t> calls{0};
  // Calls whose message has not come, the oldest first.
  struct Unread {
    Call* call;
    Clock::time_point due;
  };
  std::mutex mutex;
  std::condition_variable wake;
  std::list<Unread> unread;
  bool stopped = false;
  std::thread watcher;
};

namespace {

constexpr int kMaxMetadata = 16 << 10;  // bytes of a call's headers
constexpr int kMaxStreams = 128;        // calls at a time on one connection
constexpr std::string_view kService = "/inference.GRPCInferenceService/";
constexpr struct {
  std::string_view name;
  Method method;
} kMethods[] = {{"ServerLive", Method::kServerLive},         {"ServerReady", Method::kServerReady},
                {"ServerMetadata", Method::kServerMetadata}, {"ModelReady", Method::kModelReady},
                {"ModelMetadata", Method::kModelMetadata},   {"ModelInfer", Method::kModelInfer}};

const Method* method_of(std::string_view path) {
  if (!path.starts_with(kService)) return nullptr;
  path.remove_prefix(kService.size());
  for (const auto& known : kMethods)
    if (known.name == path) return &known.method;
  return nullptr;
}

template <typename T>
std::string_view bytes_of(const google::protobuf::RepeatedField<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

int64_t whole(const google::protobuf::Map<std::string, inference::InferParameter>& parameters,
              const char* name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return 0;
  return found->second.has_uint64_param() ? static_cast<int64_t>(found->second.uint64_param())
                                          : found->second.int64_param();
}

// Views of a ModelInferRequest, which must outlive them.
struct InferViews {
  explicit InferViews(const inference::ModelInferRequest& from) : texts(from.inputs_size()) {
    for (int i = 0; i < from.inputs_size(); ++i) {
      const auto& input = from.inputs(i);
      const auto& contents = input.contents();
      Tensor tensor{.name = input.name(),
                    .datatype = input.datatype(),
                    .shape = {input.shape().data(), static_cast<size_t>(input.shape_size())},
                    .bytes = {},
                    .texts = {}};
      if (from.raw_input_contents_size() > 0) {
        tensor.bytes = from.raw_input_contents(i);
      } else if (tensor.datatype == "FP32") {
        tensor.bytes = bytes_of(contents.fp32_contents());
      } else if (tensor.datatype == "INT64") {
        tensor.bytes = bytes_of(contents.int64_contents());
      } else if (tensor.datatype == "INT32") {
        tensor.bytes = bytes_of(contents.int_contents());
      } else if (tensor.datatype == "UINT32") {
        tensor.bytes = bytes_of(contents.uint_contents());
      } else if (tensor.datatype == "BYTES") {
        texts[i].assign(contents.bytes_contents().begin(), contents.bytes_contents().end());
        tensor.texts = texts[i];
      }
      inputs.push_back(tensor);
    }
    for (const auto& output : from.outputs())
      outputs.push_back({output.name(), whole(output.parameters(), "classification") != 0});
  }
  std::vector<std::vector<std::string_view>> texts;
  std::vector<Tensor> inputs;
  std::vector<Output> outputs;
};

Status refusal(::grpc::CallbackServerContext& context, StatusCode code, std::string_view message,
               int64_t retry_ms = -1) {
  // gRPC's own clients wait so long before they try again.
  if (retry_ms >= 0)
    context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(retry_ms));
  return {code, std::string(message)};
}

}  // namespace

struct Call final : ::grpc::ServerGenericBidiReactor {
  Call(Server& server, ::grpc::GenericCallbackServerContext& context)
      : server_(server), context_(context) {
    const int32_t calls = ++server.calls;
    const Method* const method = method_of(context.method());
    if (method == nullptr) {
      Finish(refusal(context, StatusCode::UNIMPLEMENTED,
                     "expected a method such as " + std::string(kService) + "ModelInfer, found " +
                         context.method().substr(0, 200)));
      return;
    }
    if (calls > server.options.max_calls) {
      Finish(refusal(context, StatusCode::UNAVAILABLE,
                     "expected at most " + std::to_string(server.options.max_calls) +
                         " calls at a time, found more",
                     1000));
      return;
    }
    method_ = *method;
    {
      const std::lock_guard lock(server.mutex);
      unread_ = server.unread.insert(
          server.unread.end(),
          {this, Clock::now() + std::chrono::milliseconds(server.options.request_ms)});
    }
    StartRead(&message_);
  }
  ~Call() override { --server_.calls; }

  void time_out() {
    Finish(refusal(context_, StatusCode::DEADLINE_EXCEEDED,
                   "expected a whole request within " + std::to_string(server_.options.request_ms) +
                       " ms, found less"));
  }

  void OnReadDone(bool ok) override {
    {
      const std::lock_guard lock(server_.mutex);
      // The watcher has it, and ends it.
      if (unread_ == server_.unread.end()) return;
      server_.unread.erase(unread_);
    }
    if (!ok)
      return Finish(refusal(context_, StatusCode::INVALID_ARGUMENT,
                            "expected a request of at most " +
                                std::to_string(server_.options.max_bytes) +
                                " bytes, found none that can be read"));
    switch (method_) {
      case Method::kServerLive:
        return take<inference::ServerLiveRequest>();
      case Method::kServerReady:
        return take<inference::ServerReadyRequest>();
      case Method::kServerMetadata:
        return take<inference::ServerMetadataRequest>();
      case Method::kModelReady:
        return take<inference::ModelReadyRequest>();
      case Method::kModelMetadata:
        return take<inference::ModelMetadataRequest>();
      case Method::kModelInfer:
        return take<inference::ModelInferRequest>();
    }
  }
  void OnDone() override { delete this; }

  int64_t answer(const Answer& answer) {
    if (answer.code != 0) {
      Finish(
          refusal(context_, static_cast<StatusCode>(answer.code), answer.message, answer.retry_ms));
      return 0;
    }
    switch (method_) {
      case Method::kServerLive: {
        inference::ServerLiveResponse response;
        response.set_live(answer.yes);
        return send(response);
      }
      case Method::kServerReady: {
        inference::ServerReadyResponse response;
        response.set_ready(answer.yes);
        return send(response);
      }
      case Method::kModelReady: {
        inference::ModelReadyResponse response;
        response.set_ready(answer.yes);
        return send(response);
      }
      case Method::kServerMetadata: {
        inference::ServerMetadataResponse response;
        response.set_name(std::string(answer.name));
        response.set_version(std::string(answer.version));
        for (const auto extension : answer.list) response.add_extensions(std::string(extension));
        return send(response);
      }
      case Method::kModelMetadata: {
        inference::ModelMetadataResponse response;
        response.set_name(std::string(answer.name));
        for (const auto version : answer.list) response.add_versions(std::string(version));
        response.set_platform("hugectr_lite");
        for (const TensorInfo& info : answer.inputs) describe(info, *response.add_inputs());
        for (const TensorInfo& info : answer.outputs) describe(info, *response.add_outputs());
        return send(response);
      }
      case Method::kModelInfer:
        return send_scores(answer);
    }
    return 0;
  }

 private:
  template <typename Message>
  void take() {
    Message message;
    const auto bytes = static_cast<int64_t>(message_.Length());
    if (!Wire<Message>::Deserialize(&message_, &message).ok())
      return Finish(refusal(context_, StatusCode::INVALID_ARGUMENT,
                            "expected a message " + message.GetTypeName() + ", found " +
                                std::to_string(bytes) + " bytes of something else"));
    const std::string client = context_.peer();
    Request request;
    request.method = method_;
    request.path = context_.method();
    request.client = client;
    request.bytes = bytes;
    const auto& metadata = context_.client_metadata();
    if (const auto found = metadata.find("authorization"); found != metadata.end())
      request.authorization = {found->second.data(), found->second.size()};
    if (const auto until = context_.deadline(); until != decltype(until)::max())
      request.deadline_us =
          std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(
                                   until - std::chrono::system_clock::now())
                                   .count());
    if constexpr (requires { message.model_name(); }) {
      if (const int raw = message.raw_input_contents_size(); raw > 0) {
        const bool typed = std::any_of(message.inputs().begin(), message.inputs().end(),
                                       [](const auto& input) { return input.has_contents(); });
        if (typed || raw != message.inputs_size())
          return Finish(refusal(context_, StatusCode::INVALID_ARGUMENT,
                                "raw_input_contents: expected those of all inputs and no other "
                                "contents, found " +
                                    std::to_string(raw) + " of " +
                                    std::to_string(message.inputs_size()) +
                                    (typed ? " in addition to contents" : "")));
      }
      const InferViews views(message);
      request.model = message.model_name();
      request.version = message.model_version();
      request.id = message.id();
      request.timeout_us = whole(message.parameters(), "timeout");
      request.raw = message.raw_input_contents_size() > 0;
      request.inputs = views.inputs;
      request.outputs = views.outputs;
      server_.options.handle(server_.options.context, this, &request);
    } else {
      if constexpr (requires { message.version(); }) {
        request.model = message.name();
        request.version = message.version();
      }
      server_.options.handle(server_.options.context, this, &request);
    }
  }

  template <typename To>
  static void describe(const TensorInfo& from, To& to) {
    to.set_name(std::string(from.name));
    to.set_datatype(std::string(from.datatype));
    to.mutable_shape()->Add(from.shape.begin(), from.shape.end());
  }

  int64_t send_scores(const Answer& answer) {
    inference::ModelInferResponse response;
    response.set_model_name(std::string(answer.name));
    response.set_model_version(std::string(answer.version));
    response.set_id(std::string(answer.id));
    auto& output = *response.add_outputs();
    describe(answer.outputs[0], output);
    if (answer.raw)
      response.add_raw_output_contents(answer.scores.data(), answer.scores.size_bytes());
    else
      output.mutable_contents()->mutable_fp32_contents()->Add(answer.scores.begin(),
                                                              answer.scores.end());
    return send(response);
  }

  template <typename Message>
  int64_t send(const Message& message) {
    bool own = false;
    message_.Clear();
    const Status written = Wire<Message>::Serialize(message, &message_, &own);
    if (!written.ok()) {
      Finish(written);
      return 0;
    }
    const auto bytes = static_cast<int64_t>(message_.Length());
    StartWriteAndFinish(&message_, {}, Status::OK);
    return bytes;
  }

  friend struct Server;
  Server& server_;
  ::grpc::GenericCallbackServerContext& context_;
  Method method_ = Method::kServerLive;
  ::grpc::ByteBuffer message_;  // the request, then the answer
  std::list<Server::Unread>::iterator unread_;
};

::grpc::ServerGenericBidiReactor* Server::CreateReactor(
    ::grpc::GenericCallbackServerContext* context) {
  return new Call(*this, *context);  // deleted when gRPC is done with it
}

// Ends calls whose message does not come.
void Server::watch() {
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, std::chrono::milliseconds(100), [this] { return stopped; })) {
    std::vector<Call*> late;
    for (const auto now = Clock::now(); !unread.empty() && unread.front().due <= now;) {
      late.push_back(unread.front().call);
      late.back()->unread_ = unread.end();
      unread.pop_front();
    }
    lock.unlock();
    for (Call* const call : late) call->time_out();
    lock.lock();
  }
}

namespace {

Server* start(const Options* options) noexcept {
  auto server = std::make_unique<Server>();
  server->options = *options;
  ::grpc::ServerBuilder builder;
  const std::string host = options->host;
  const bool v6 = host.find(':') != std::string::npos;
  builder.AddListeningPort((v6 ? "[" + host + "]" : host) + ":" + std::to_string(options->port),
                           ::grpc::InsecureServerCredentials(), &server->port);
  builder.RegisterCallbackGenericService(server.get());
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<int64_t>(options->max_bytes, std::numeric_limits<int>::max())));
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  const auto milliseconds = [](int64_t value) {
    return static_cast<int>(std::min<int64_t>(value, std::numeric_limits<int>::max()));
  };
  // Without it a second server would take some of the connections to the same port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, milliseconds(options->idle_ms));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             milliseconds(options->request_ms));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadata);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  server->server = builder.BuildAndStart();
  if (!server->server || server->port == 0) return nullptr;
  server->watcher = std::thread([self = server.get()] { self->watch(); });
  return server.release();
}

uint16_t port(const Server* server) noexcept { return static_cast<uint16_t>(server->port); }

int64_t answer(Call* call, const Answer* with) noexcept { return call->answer(*with); }

void stop(Server* running, int64_t drain_ms) noexcept {
  const std::unique_ptr<Server> server(running);
  server->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(drain_ms));
  {
    const std::lock_guard lock(server->mutex);
    server->stopped = true;
  }
  server->wake.notify_one();
  server->watcher.join();
}

constexpr Plugin kPlugin{.version = kInterfaceVersion,
                         .grpc = GRPC_CPP_VERSION_STRING,
                         .start = start,
                         .port = port,
                         .answer = answer,
                         .stop = stop};

}  // namespace
}  // namespace hlite::serve::grpc

extern "C" __attribute__((visibility("default"))) const hlite::serve::grpc::Plugin*
hlite_grpc_plugin() noexcept {
  return &hlite::serve::grpc::kPlugin;
}
