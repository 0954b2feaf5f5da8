// An HTTP/1.1 server: connections, limits and draining. What requests mean is the business of
// whoever admits them.
//
// Boost.Beast on one event loop. Every limit on what a client sends is enforced here: a request
// beyond one is answered with 4xx or 503, and its connection is closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/serve/body_budget.h"

namespace hlite::serve {

using Clock = std::chrono::steady_clock;

// Bytes that a body's memory has beyond its end, as JSON parsers want them.
inline constexpr size_t kBodyPadding = 64;

struct HttpHead {
  std::string method, target;  // the target without its query
  // Headers; empty: absent.
  std::string host, authorization, origin, content_type, content_encoding, json_length;
  std::string client;     // address
  bool loopback = false;  // whether that is this machine's own
};

struct HttpRequest : HttpHead {
  std::string body;            // with kBodyPadding bytes of capacity beyond its end
  BodyLease lease;             // counts the body for as long as it lives
  Clock::time_point received;  // when its last byte was read
};

struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// {"error": message}, as KServe v2 has it. 503 asks the client to come again in a second.
HttpAnswer error_answer(int status, const std::string& message);

// Sends the answer: to be called once, from any thread.
using Respond = std::function<void(HttpAnswer)>;

// What becomes of a request.
struct Admission {
  int64_t max_body = 0;
  std::function<void(HttpRequest, const Respond&)> handle = {};
  std::optional<HttpAnswer> refusal = {};  // instead of all others
};
// Decides by the head, before a byte of the body is read. This and what it decides for are called
// on the event loop, so they must not wait.
using Admit = std::function<Admission(const HttpHead&)>;

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: a free one
  int64_t max_body = int64_t{64} << 20;
  int64_t max_bodies = int64_t{128} << 20;  // of all requests and answers together
  uint32_t max_header = 16 << 10;           // with trailers
  int max_connections = 4096;
  std::chrono::milliseconds idle{60'000};     // without the first byte of a request
  std::chrono::milliseconds request{10'000};  // from the first byte to the last; for an answer
  std::chrono::milliseconds drain_delay{0};   // from stop() until no more connections are taken
  std::chrono::milliseconds drain{10'000};    // after that, for the requests at hand
};

struct HttpCounts {
  int64_t connections = 0;  // open ones
  int64_t refused = 0;      // connections beyond max_connections
  int64_t body_bytes = 0;   // of max_bodies
};

class HttpServer {
 public:
  // Listens. Throws ConfigError for an address that cannot be used.
  HttpServer(const HttpOptions& options, Admit admit);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] uint16_t port() const;
  // Serves until stop() was called and all requests at hand are answered, or options.drain is over.
  void run();
  // From any thread: answers what has begun and what comes within options.drain_delay, and closes
  // each connection with its answer, or once it was idle for so long; then listens no more.
  void stop();
  [[nodiscard]] HttpCounts counts() const;

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace hlite::serve
