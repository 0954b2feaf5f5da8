// The gRPC plug-in: libhlite_grpc.so, the one library that uses gRPC and protobuf, opened by
// --grpc-port.
//
// It takes calls, turns protobuf's messages into views of their values and back, and keeps the
// limits on what clients send. What a request means is decided on the program's side
// (grpc_server.h), which needs no header of gRPC.
//
// Functions are noexcept. Neither gRPC nor the plug-in is instrumented by sanitizers, so what
// crosses are views: each side copies what it keeps.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hlite::serve::grpc {

inline constexpr const char* kLibraryName = "libhlite_grpc.so";
inline constexpr const char* kEntryName = "hlite_grpc_plugin";
// Counted up with every change of what follows.
inline constexpr int32_t kInterfaceVersion = 1;

enum class Method : int32_t {
  kServerLive,
  kServerReady,
  kServerMetadata,
  kModelReady,
  kModelMetadata,
  kModelInfer,
};

// An input of a request.
struct Tensor {
  std::string_view name, datatype;
  std::span<const int64_t> shape;
  std::string_view bytes;                   // elements as KServe v2 has them in binary
  std::span<const std::string_view> texts;  // instead of bytes: elements of BYTES
};

struct Output {
  std::string_view name;
  bool classified;  // has the parameter "classification"
};

// Valid until the handler returns.
struct Request {
  Method method = Method::kServerLive;
  std::string_view path, client, authorization;
  std::string_view model, version;
  int64_t bytes = 0;         // of its message
  int64_t deadline_us = -1;  // that the client still waits; -1: for ever
  // The rest belongs to kModelInfer.
  std::string_view id;
  int64_t timeout_us = 0;  // the parameter "timeout"; 0: none
  bool raw = false;        // in raw_input_contents; the answer is then raw, too
  std::span<const Tensor> inputs;
  std::span<const Output> outputs;
};

// An input or output of a model.
struct TensorInfo {
  std::string_view name, datatype;
  std::span<const int64_t> shape;
};

struct Answer {
  int32_t code = 0;  // gRPC's status; if it is not 0, only the message counts
  std::string_view message = {};
  int64_t retry_ms = -1;                     // after which the client may try again; -1: not said
  bool yes = true;                           // live, ready
  std::string_view name = {}, version = {};  // of the server or the model
  std::span<const std::string_view> list = {};  // extensions of the server, versions of the model
  std::span<const TensorInfo> inputs = {}, outputs = {};
  // The answer to kModelInfer has scores [.., tasks] as outputs[0].
  std::string_view id = {};
  bool raw = false;
  std::span<const float> scores = {};
};

struct Call;
struct Server;

struct Options {
  const char* host;
  uint16_t port;  // 0: a free one
  int32_t max_calls;
  int64_t max_bytes;   // of a message
  int64_t idle_ms;     // that a connection may be without a call
  int64_t request_ms;  // from the beginning of a call to its message
  // Called on gRPC's threads, so it must not wait. The call is to be answered once.
  void (*handle)(void* context, Call* call, const Request* request) noexcept;
  void* context;
};

struct Plugin {
  int32_t version;
  const char* grpc;  // version of gRPC

  // Null where the address cannot be used.
  Server* (*start)(const Options*) noexcept;
  uint16_t (*port)(const Server*) noexcept;
  // Sends the answer, from any thread; `call` ends with it. Returns the bytes of its message.
  int64_t (*answer)(Call* call, const Answer* answer) noexcept;
  // Takes no more calls, waits for those at hand, and after `drain_ms` cancels them.
  void (*stop)(Server*, int64_t drain_ms) noexcept;
};

using PluginEntry = const Plugin* (*)() noexcept;

}  // namespace hlite::serve::grpc
