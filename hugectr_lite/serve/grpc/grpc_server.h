// The service over gRPC: inference.GRPCInferenceService of KServe v2 (inference.proto).
#pragma once

#include <cstdint>

#include "hugectr_lite/serve/grpc/grpc_plugin.h"
#include "hugectr_lite/serve/http_server.h"
#include "hugectr_lite/serve/service.h"

namespace hlite::serve::grpc {

// The plug-in, opened by the first call: the library that $HLITE_GRPC_LIBRARY names; without it the
// plugin_file(). Throws ConfigError that says what is missing and how to get it.
const Plugin& require_plugin();

class GrpcServer {
 public:
  // Listens on limits.host and `port` and serves; limits.max_connections are calls at a time.
  // Throws ConfigError for an address that cannot be used. `service` must outlive it.
  GrpcServer(const HttpOptions& limits, uint16_t port, Service& service);
  ~GrpcServer() { stop(); }
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  // Takes no more calls and returns when those at hand are answered, or cancelled after
  // limits.drain.
  void stop();

 private:
  void handle(Call* call, const Request& request);
  void infer(Call* call, const Request& request, const Finished& finished);
  void send(Call* call, const Answer& answer, Finished finished);
  void refuse(Call* call, const Refusal& refusal, Finished finished);

  const Plugin& plugin_;
  Service& service_;
  const std::chrono::milliseconds drain_;
  Server* server_ = nullptr;
  uint16_t port_ = 0;
};

}  // namespace hlite::serve::grpc
