// One connection of an HttpServer: its requests one after the other, each within its limits.
#pragma once

#include <utility>  // which Boost 1.74 takes for granted

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hugectr_lite/serve/http_parser.h"
#include "hugectr_lite/serve/http_server.h"

namespace hlite::serve {

class HttpConnection;

// What the connections of a server share. Only the thread of the event loop touches it, except for
// counters and for work that is posted to the loop.
struct HttpLoop {
  HttpLoop(const HttpOptions& from, Admit with)
      : options(from),
        admit(std::move(with)),
        bodies(std::make_shared<BodyBudget>(from.max_bodies)) {}

  HttpOptions options;
  Admit admit;
  std::shared_ptr<BodyBudget> bodies;
  boost::asio::io_context loop{1};
  std::vector<char> piece = std::vector<char>(64 << 10);  // what one read brings
  // The open ones. Other threads refer to a connection weakly, so that it ends on this thread.
  std::unordered_map<HttpConnection*, std::shared_ptr<HttpConnection>> connections;
  // kDraining: each connection ends with its next answer. kEnding: idle ones end at once.
  enum class Phase { kServing, kDraining, kEnding } phase = Phase::kServing;
  std::atomic<int64_t> open{0}, refused{0};
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  HttpConnection(std::shared_ptr<HttpLoop> shared, Socket socket);

  // Serves requests. With an answer, gives that one to whatever comes, and ends.
  void start(std::optional<HttpAnswer> only = {});
  // Ends the connection if no request is under way on it and none has come.
  void end_if_idle();
  void close();
  // Answers 500 where an answer is still due, and ends. Called for an exception.
  void give_up(const char* why) noexcept;

 private:
  using Code = boost::system::error_code;
  enum class Stage { kIdle, kRead, kHandle, kWrite, kDiscard };

  // A callback that leaves no exception to the loop.
  template <typename Body>
  auto guarded(Body body) {
    return [self = shared_from_this(), body = std::move(body)](const Code& error, auto...) {
      try {
        body(*self, error);
      } catch (const std::exception& why) {
        self->give_up(why.what());
      }
    };
  }

  void begin_request();
  void wait_for_bytes();
  void read();
  void take(std::string_view bytes);
  void admit();
  void send_continue();
  void handle();
  void refuse(HttpAnswer answer);
  void write(HttpAnswer answer);
  void discard(std::chrono::milliseconds limit);
  void read_and_discard();
  void start_timer(std::chrono::milliseconds limit);
  void stop_timer();
  void time_out();

  const std::shared_ptr<HttpLoop> shared_;
  Socket socket_;
  boost::asio::steady_timer timer_;
  uint64_t timer_call_ = 0;
  std::optional<HttpParser> parser_;
  Admission admission_;
  std::string ahead_;  // bytes that came and are not read: a part of a head, or the next request
  std::optional<HttpAnswer> only_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::string_body>>
      serializer_;
  BodyLease answer_lease_;
  Stage stage_ = Stage::kIdle;
  bool is_new_ = true, waits_ = false, admitted_ = false, keep_alive_ = true, head_only_ = false;
  unsigned version_ = 11;
  std::string client_;
  bool loopback_ = false;
};

}  // namespace hlite::serve
