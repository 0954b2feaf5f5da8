// An HTTP/1.1 server: connections, limits and draining. What requests mean is the handler's
// business.
//
// Boost.Beast on one event loop. Every limit on what a client sends is enforced here: a request
// beyond one is answered with 4xx, and its connection is closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hlite::serve {

using Clock = std::chrono::steady_clock;

// Bytes that a body's memory has beyond its end, as JSON parsers want them.
inline constexpr size_t kBodyPadding = 64;

struct HttpRequest {
  std::string method, target;  // the target without its query
  std::string body;            // with kBodyPadding bytes of capacity beyond its end
  std::string host, authorization, content_encoding, json_length;  // headers; empty: absent
  std::string client;                                              // address
  Clock::time_point received;                                      // when its last byte was read
};

struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// {"error": message}, as KServe v2 has it.
HttpAnswer error_answer(int status, const std::string& message);

// Sends the answer: to be called once, from any thread.
using Respond = std::function<void(HttpAnswer)>;
// Called on the event loop, so it must not wait.
using Handler = std::function<void(HttpRequest, const Respond&)>;

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: a free one
  int64_t max_body = int64_t{64} << 20;
  uint32_t max_header = 16 << 10;
  int max_connections = 4096;
  std::chrono::milliseconds idle{60'000};     // without the first byte of a request
  std::chrono::milliseconds request{10'000};  // from the first byte to the last, and for an answer
  std::chrono::milliseconds drain{10'000};    // for the requests at hand, once stop() was called
};

struct HttpCounts {
  int64_t connections = 0;  // open ones
  int64_t refused = 0;      // connections beyond max_connections
};

class HttpServer {
 public:
  // Listens. Throws ConfigError for an address that cannot be used.
  HttpServer(const HttpOptions& options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] uint16_t port() const;
  // Serves until stop() was called and all requests at hand are answered, or options.drain is over.
  void run();
  // From any thread: takes no more connections, closes the idle ones, answers what has begun.
  void stop();
  [[nodiscard]] HttpCounts counts() const;

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace hlite::serve
