#include "hugectr_lite/serve/http_server.h"

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "hugectr_lite/core/error.h"

namespace hlite::serve {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

HttpAnswer error_answer(int status, const std::string& message) {
  // Messages quote what clients sent, which need not be UTF-8.
  return {.status = status,
          .body = nlohmann::json{{"error", message}}.dump(
              -1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

// Bytes that are read at once. Beast reads no more than the buffer has capacity for, which is 512
// unless it is reserved: a body of 64 KiB took 130 reads.
constexpr size_t kHeadPiece = 2 << 10, kBodyPiece = 32 << 10;

// Not without a name: HttpServer::Implementation has linkage.
namespace detail {

class Connection;

// State that connections share. Only the thread of the event loop touches it, except for the
// counters and for work that is posted to the loop.
struct Shared {
  HttpOptions options;
  Handler handler;
  asio::io_context loop{1};
  // The open ones. Other threads refer to a connection weakly, so that it ends on this thread.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  bool draining = false;
  std::atomic<int64_t> open{0}, refused{0};
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, tcp::socket socket)
      : shared_(std::move(shared)), socket_(std::move(socket)), timer_(shared_->loop) {
    error_code error;
    socket_.set_option(tcp::no_delay(true), error);
    buffer_.reserve(kHeadPiece);
    if (const auto peer = socket_.remote_endpoint(error); !error)
      client_ = peer.address().to_string();
  }

  void start() {
    shared_->connections.emplace(this, shared_from_this());
    ++shared_->open;
    wait_for_request();
  }
  // Ends the connection if no request is under way on it.
  void drain() {
    if (stage_ == Stage::kIdle) close();
  }
  void close() {
    error_code ignored;
    stop_timer();
    socket_.close(ignored);
    if (shared_->connections.contains(this)) {
      const auto self = shared_from_this();  // beyond the erasure
      shared_->connections.erase(this);
      --shared_->open;
    }
  }

 private:
  enum class Stage { kIdle, kRead, kHandle, kWrite, kDiscard };

  void wait_for_request() {
    parser_.emplace();
    parser_->header_limit(shared_->options.max_header);
    parser_->body_limit(static_cast<uint64_t>(shared_->options.max_body));
    if (buffer_.size() > 0) return read_header();
    if (shared_->draining) return close();
    stage_ = Stage::kIdle;
    start_timer(shared_->options.idle);
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         if (error) return self->close();
                         self->read_header();
                       });
  }

  // A call of the timer may already be on its way when it is stopped, so calls are numbered.
  void stop_timer() {
    ++timer_call_;
    timer_.cancel();
  }
  void start_timer(std::chrono::milliseconds limit) {
    timed_out_ = false;
    timer_.expires_after(limit);
    timer_.async_wait([self = shared_from_this(), call = ++timer_call_](const error_code& error) {
      if (error || self->timer_call_ != call) return;
      self->timed_out_ = true;
      error_code ignored;
      if (self->stage_ == Stage::kRead)
        self->socket_.cancel(ignored);
      else
        self->socket_.close(ignored);
    });
  }

  void read_header() {
    stage_ = Stage::kRead;
    start_timer(shared_->options.request);
    http::async_read_header(socket_, buffer_, *parser_,
                            [self = shared_from_this()](const error_code& error, size_t) {
                              if (error) return self->refuse(error);
                              self->read_body();
                            });
  }

  void read_body() {
    const auto& head = parser_->get();
    if (boost::beast::iequals(head[http::field::expect], "100-continue") && !parser_->is_done())
      return send_continue();
    if (!parser_->is_done())
      buffer_.reserve(static_cast<size_t>(
          std::min<uint64_t>(parser_->content_length().value_or(kBodyPiece), kBodyPiece)));
    http::async_read(socket_, buffer_, *parser_,
                     [self = shared_from_this()](const error_code& error, size_t) {
                       if (error) return self->refuse(error);
                       self->handle();
                     });
    // The time was over when the header had just come: nothing else would end this read.
    if (error_code ignored; timed_out_) socket_.cancel(ignored);
  }

  void send_continue() {
    static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    parser_->get().erase(http::field::expect);
    asio::async_write(socket_, asio::buffer(kContinue),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (error) return self->close();
                        self->read_body();
                      });
  }

  void handle() {
    stage_ = Stage::kHandle;
    stop_timer();
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    head_only_ = message.method() == http::verb::head;
    version_ = message.version();
    const auto text = [&](auto name) {
      const auto value = message[name];
      return std::string(value.data(), value.size());
    };
    const auto target = message.target();
    HttpRequest request{.method = std::string(message.method_string()),
                        .target = std::string(target.substr(0, target.find('?'))),
                        .body = std::move(message.body()),
                        .host = text(http::field::host),
                        .authorization = text(http::field::authorization),
                        .content_encoding = text(http::field::content_encoding),
                        .json_length = text("Inference-Header-Content-Length"),
                        .client = client_,
                        .received = Clock::now()};
    request.body.reserve(request.body.size() + kBodyPadding);
    const auto respond = [shared = shared_, to = weak_from_this()](HttpAnswer answer) {
      asio::dispatch(shared->loop, [to, answer = std::move(answer)]() mutable {
        if (const auto self = to.lock()) self->write(std::move(answer));
      });
    };
    shared_->handler(std::move(request), respond);
  }

  // A request that cannot be read to its end.
  void refuse(const error_code& error) {
    keep_alive_ = false;
    const HttpOptions& options = shared_->options;
    const auto& head = parser_->get();
    if (timed_out_)
      return write(error_answer(
          408, fmt::format("expected a whole request within {} ms, found {} bytes of its body",
                           options.request.count(), head.body().size())));
    if (error == http::error::end_of_stream || error == asio::error::connection_reset ||
        error == asio::error::operation_aborted)
      return close();
    if (error == http::error::body_limit)
      return write(error_answer(
          413, fmt::format("expected a body of at most {} bytes, found {}", options.max_body,
                           head.has_content_length()
                               ? "Content-Length: " + std::string(head[http::field::content_length])
                               : "more")));
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return write(error_answer(431, fmt::format("expected headers of at most {} bytes, found more",
                                                 options.max_header)));
    if (error == http::error::partial_message)
      return write(error_answer(
          400, fmt::format("expected a whole request, found its end after {} bytes of the body",
                           head.body().size())));
    write(error_answer(400, "expected an HTTP/1.1 request, found one with a " + error.message()));
  }

  void write(HttpAnswer answer) {
    stage_ = Stage::kWrite;
    response_ = {static_cast<http::status>(answer.status), version_, std::move(answer.body)};
    response_.set(http::field::content_type, answer.type);
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    response_.keep_alive(keep_alive_ && !shared_->draining);
    response_.prepare_payload();
    start_timer(shared_->options.request);
    serializer_.emplace(response_);
    const auto done = [self = shared_from_this()](const error_code& error, size_t) {
      if (error) return self->close();
      self->response_.keep_alive() ? self->wait_for_request() : self->discard();
    };
    if (head_only_) {
      serializer_->split(true);
      http::async_write_header(socket_, *serializer_, done);
    } else {
      http::async_write(socket_, *serializer_, done);
    }
  }

  // Reads what the client still sends, for as long as a request may take: closing at once could cost
  // it the answer.
  void discard() {
    error_code ignored;
    if (stage_ != Stage::kDiscard) {
      stage_ = Stage::kDiscard;
      socket_.shutdown(tcp::socket::shutdown_send, ignored);
      start_timer(shared_->options.request);
      buffer_.clear();
    }
    socket_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this()](const error_code& error, size_t) {
                              error ? self->close() : self->discard();
                            });
  }

  const std::shared_ptr<Shared> shared_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  Stage stage_ = Stage::kIdle;
  uint64_t timer_call_ = 0;
  bool timed_out_ = false, keep_alive_ = true, head_only_ = false;
  unsigned version_ = 11;
  std::string client_;
};

}  // namespace detail

using detail::Connection;
using detail::Shared;

class HttpServer::Implementation {
 public:
  Implementation(const HttpOptions& options, Handler handler)
      : shared_(std::make_shared<Shared>()), acceptor_(shared_->loop), timer_(shared_->loop) {
    shared_->options = options;
    shared_->handler = std::move(handler);
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
    if (error)
      raise<ConfigError>("--host {} --port {}: cannot listen: {}", options.host, options.port,
                         error.message());
  }

  void run() {
    accept();
    shared_->loop.run();
    close_all();  // requests that are still under way when options.drain is over
    shared_->loop.restart();
    shared_->loop.poll();
  }
  void stop() {
    asio::post(shared_->loop, [this] {
      if (std::exchange(shared_->draining, true)) return;
      error_code ignored;
      acceptor_.close(ignored);
      timer_.cancel();
      for (const auto& connection : open_connections()) connection->drain();
      timer_.expires_after(shared_->options.drain);
      timer_.async_wait([this](const error_code& error) {
        if (!error) shared_->loop.stop();
      });
      wait_until_drained();
    });
  }
  [[nodiscard]] uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] HttpCounts counts() const {
    return {.connections = shared_->open, .refused = shared_->refused};
  }

 private:
  [[nodiscard]] std::vector<std::shared_ptr<Connection>> open_connections() const {
    std::vector<std::shared_ptr<Connection>> list;
    for (const auto& [key, connection] : shared_->connections) list.push_back(connection);
    return list;
  }
  void close_all() {
    for (const auto& connection : open_connections()) connection->close();
  }

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (shared_->draining) return;
      if (error) return accept_later();
      if (shared_->open >= shared_->options.max_connections)
        refuse(socket);
      else
        std::make_shared<Connection>(shared_, std::move(socket))->start();
      accept();
    });
  }

  // No file descriptor is left, for example.
  void accept_later() {
    timer_.expires_after(std::chrono::milliseconds(50));
    timer_.async_wait([this](const error_code& error) {
      if (!error) accept();
    });
  }

  void refuse(tcp::socket& socket) {
    ++shared_->refused;
    const HttpAnswer answer =
        error_answer(503, fmt::format("expected at most {} connections, found all in use",
                                      shared_->options.max_connections));
    const std::string text = fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Connection: close\r\nContent-Length: {}\r\n\r\n{}",
        answer.body.size(), answer.body);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void wait_until_drained() {
    if (shared_->connections.empty()) {
      timer_.cancel();
      return;
    }
    auto again = std::make_shared<asio::steady_timer>(shared_->loop, std::chrono::milliseconds(5));
    again->async_wait([this, again](const error_code&) { wait_until_drained(); });
  }

  const std::shared_ptr<Shared> shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer timer_;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler)
    : implementation_(std::make_shared<Implementation>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return implementation_->port(); }
void HttpServer::run() { implementation_->run(); }
void HttpServer::stop() { implementation_->stop(); }
HttpCounts HttpServer::counts() const { return implementation_->counts(); }

}  // namespace hlite::serve
