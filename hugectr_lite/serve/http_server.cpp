#include "hugectr_lite/serve/http_server.h"

#include <linux/filter.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/serve/http_connection.h"

namespace hlite::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

HttpAnswer error_answer(int status, const std::string& message) {
  // Messages quote what clients sent, which need not be UTF-8.
  HttpAnswer answer{.status = status,
                    .body = nlohmann::json{{"error", message}}.dump(
                        -1, ' ', false, nlohmann::json::error_handler_t::replace)};
  if (status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

namespace {

// Connections beyond max_connections that are told so. More are closed without a word.
constexpr int kMaxRefused = 64;
// For handshakes that are half done when no more connections are taken.
constexpr std::chrono::milliseconds kHandshakes{100};

// From now on the kernel begins no new connections, while those that it has begun go on: a client
// whose connection is complete may have sent a request, which closing the listener would lose.
// A classic BPF program that sees the TCP header: byte 13 has the flags, SYN is 2 and ACK 16.
void take_no_more(int listener) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 18),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, 0xffff),
  };
  const sock_fprog program{.len = std::size(code), .filter = code};
  if (setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
    log::warning("requests that come at the very end may be lost: no filter on the listener");
}

}  // namespace

class HttpServer::Implementation {
 public:
  Implementation(const HttpOptions& options, Admit admit)
      : shared_(std::make_shared<HttpLoop>(options, std::move(admit))),
        acceptor_(shared_->loop),
        retry_(shared_->loop),
        phase_timer_(shared_->loop) {
    error_code error;
    const auto address = asio::ip::make_address(options.host, error);
    if (error)
      raise<ConfigError>("--host: expected an address such as 127.0.0.1 or ::, found {}",
                         options.host);
    const tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(1024, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error)
      raise<ConfigError>("--host {} --port {}: cannot listen: {}", options.host, options.port,
                         error.message());
    port_ = acceptor_.local_endpoint().port();
  }

  void run() {
    wait_for_connections();
    // Connections keep their exceptions to themselves; of what else fails, the rest goes on.
    for (bool ended = false; !ended;) try {
        shared_->loop.run();
        ended = true;
      } catch (const std::exception& why) {
        log::warning("event loop: {}", why.what());
      }
    for (const auto& connection : open_connections()) connection->close();
    shared_->loop.restart();
    shared_->loop.poll();
  }
  void stop() {
    asio::post(shared_->loop, [this] {
      if (shared_->phase != HttpLoop::Phase::kServing) return;
      shared_->phase = HttpLoop::Phase::kDraining;
      after(shared_->options.drain_delay, [this] {
        take_no_more(acceptor_.native_handle());
        after(kHandshakes, [this] { end(); });
      });
    });
  }
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] HttpCounts counts() const {
    return {.connections = shared_->open,
            .refused = shared_->refused,
            .body_bytes = shared_->bodies->used()};
  }

 private:
  [[nodiscard]] std::vector<std::shared_ptr<HttpConnection>> open_connections() const {
    std::vector<std::shared_ptr<HttpConnection>> list;
    for (const auto& [key, connection] : shared_->connections) list.push_back(connection);
    return list;
  }

  template <typename Then>
  void after(std::chrono::milliseconds delay, Then then) {
    phase_timer_.expires_after(delay);
    phase_timer_.async_wait([then](const error_code& error) {
      if (!error) then();
    });
  }

  void wait_for_connections() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](const error_code& error) {
      if (error) return;  // it is closed
      if (accept_all())
        wait_for_connections();
      else
        accept_later();
    });
  }

  // False where a connection cannot be taken: no file descriptor is left, for example.
  bool accept_all() {
    for (;;) {
      error_code error;
      tcp::socket socket(shared_->loop);
      acceptor_.accept(socket, error);
      if (error == asio::error::would_block) return true;
      if (error == asio::error::connection_aborted) continue;
      if (error) return false;
      begin(std::move(socket));
    }
  }

  void begin(tcp::socket socket) {
    const int64_t most = shared_->options.max_connections;
    std::optional<HttpAnswer> refusal;
    if (shared_->open >= most) {
      ++shared_->refused;
      if (shared_->open >= most + kMaxRefused) return;
      refusal =
          error_answer(503, fmt::format("expected at most {} connections, found all in use", most));
    }
    std::make_shared<HttpConnection>(shared_, std::move(socket))->start(std::move(refusal));
  }

  void accept_later() {
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([this](const error_code& error) {
      if (!error) wait_for_connections();
    });
  }

  void end() {
    static_cast<void>(accept_all());
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    shared_->phase = HttpLoop::Phase::kEnding;
    for (const auto& connection : open_connections()) connection->end_if_idle();
    // run() returns once nothing is open, or then.
    deadline_ = Clock::now() + shared_->options.drain;
    wait_for_the_last();
  }
  void wait_for_the_last() {
    if (shared_->connections.empty()) return;
    if (Clock::now() >= deadline_) return shared_->loop.stop();
    after(std::chrono::milliseconds(5), [this] { wait_for_the_last(); });
  }

  const std::shared_ptr<HttpLoop> shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_, phase_timer_;
  Clock::time_point deadline_;
  uint16_t port_ = 0;
};

HttpServer::HttpServer(const HttpOptions& options, Admit admit)
    : implementation_(std::make_shared<Implementation>(options, std::move(admit))) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return implementation_->port(); }
void HttpServer::run() { implementation_->run(); }
void HttpServer::stop() { implementation_->stop(); }
HttpCounts HttpServer::counts() const { return implementation_->counts(); }

}  // namespace hlite::serve
