#include "hugectr_lite/serve/http_connection.h"

#include <algorithm>
#include <boost/beast/http/write.hpp>

#include "hugectr_lite/core/log.h"

namespace hlite::serve {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

// Answers beyond this size count among the bodies, as clients may leave them unread.
constexpr size_t kSmallAnswer = 16 << 10;
// Bytes beyond the request at hand that are read with it, at most.
constexpr uint64_t kReadAhead = 16 << 10;
// How long an ended connection reads on what its client had sent: closing at once could cost it
// the answer.
constexpr std::chrono::milliseconds kLinger{1000};

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<HttpLoop> shared, Socket socket)
    : shared_(std::move(shared)), socket_(std::move(socket)), timer_(shared_->loop) {
  Code error;
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  socket_.non_blocking(true, error);
  if (const auto peer = socket_.remote_endpoint(error); !error) {
    const auto address = peer.address();
    client_ = address.to_string();
    loopback_ = address.is_loopback() ||
                (address.is_v6() && address.to_v6().is_v4_mapped() &&
                 asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback());
  }
}

void HttpConnection::start(std::optional<HttpAnswer> only) {
  shared_->connections.emplace(this, shared_from_this());
  ++shared_->open;
  only_ = std::move(only);
  begin_request();
}

void HttpConnection::end_if_idle() {
  if (stage_ != Stage::kIdle) return;
  read();  // a request that has come is served
  if (stage_ != Stage::kIdle) return;
  // The first request of a new connection may be on its way.
  is_new_ ? start_timer(kLinger) : discard(kLinger);
}

void HttpConnection::close() {
  Code ignored;
  stop_timer();
  socket_.close(ignored);
  if (shared_->connections.contains(this)) {
    const auto self = shared_from_this();  // beyond the erasure
    shared_->connections.erase(this);
    --shared_->open;
  }
}

void HttpConnection::give_up(const char* why) noexcept {
  try {
    log::warning("connection of {}: {}", client_, why);
    if (stage_ == Stage::kRead || stage_ == Stage::kHandle)
      refuse(error_answer(500, "the server failed on this request"));
    else
      close();
  } catch (const std::exception&) {  // no memory is left
    close();
  }
}

void HttpConnection::begin_request() {
  const HttpOptions& options = shared_->options;
  parser_.emplace(options.max_header, BodyLease(shared_->bodies));
  admitted_ = false;
  admission_ = {};
  if (!ahead_.empty()) return take(std::exchange(ahead_, {}));
  stage_ = Stage::kIdle;
  start_timer(options.idle);
  wait_for_bytes();
  if (shared_->phase == HttpLoop::Phase::kEnding) end_if_idle();
}

void HttpConnection::wait_for_bytes() {
  if (std::exchange(waits_, true)) return;
  socket_.async_wait(Socket::wait_read, guarded([](HttpConnection& self, const Code& error) {
                       self.waits_ = false;
                       if (self.stage_ != Stage::kIdle && self.stage_ != Stage::kRead) return;
                       if (error) return self.close();
                       self.read();
                     }));
}

// Reads what is there, without waiting, into memory that all connections share: an open connection
// costs a few hundred bytes.
void HttpConnection::read() {
  Code error;
  std::vector<char>& piece = shared_->piece;
  // What is beyond this request is kept until it is answered, so it must not be much.
  const size_t most = std::min<uint64_t>(piece.size(), kReadAhead + parser_->body_to_come());
  const size_t size = socket_.read_some(asio::buffer(piece.data(), most), error);
  if (error == asio::error::would_block) return wait_for_bytes();
  if (error == asio::error::eof && stage_ == Stage::kRead) {
    parser_->end();
    return refuse(std::move(*parser_->refusal()));
  }
  if (error) return close();
  if (ahead_.empty()) return take({piece.data(), size});
  ahead_.append(piece.data(), size);
  take(std::exchange(ahead_, {}));
}

void HttpConnection::take(std::string_view bytes) {
  is_new_ = false;
  if (stage_ != Stage::kRead) {
    stage_ = Stage::kRead;
    start_timer(shared_->options.request);
  }
  for (;;) {
    bytes.remove_prefix(parser_->read(bytes));
    if (parser_->has_head() && !admitted_ && !parser_->refusal()) {
      admit();
      continue;
    }
    break;
  }
  if (parser_->refusal()) return refuse(std::move(*parser_->refusal()));
  ahead_ = bytes;
  if (parser_->is_whole()) return handle();
  wait_for_bytes();
}

void HttpConnection::admit() {
  admitted_ = true;
  parser_->head().client = client_;
  parser_->head().loopback = loopback_;
  admission_ = only_ ? Admission{.refusal = only_} : shared_->admit(parser_->head());
  if (admission_.refusal) return parser_->refuse(std::move(*admission_.refusal));
  parser_->admit(admission_.max_body);
  if (parser_->expects_continue() && !parser_->is_whole() && !parser_->refusal()) send_continue();
}

// So few bytes fit into the socket's buffer, as the client has taken all answers before.
void HttpConnection::send_continue() {
  Code ignored;
  socket_.write_some(asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")), ignored);
}

void HttpConnection::handle() {
  stage_ = Stage::kHandle;
  stop_timer();
  keep_alive_ = parser_->stays_open();
  head_only_ = parser_->head().method == "HEAD";
  version_ = parser_->version();
  HttpRequest request{std::move(parser_->head()), std::move(parser_->body()),
                      std::move(parser_->lease()), Clock::now()};
  request.body.reserve(request.body.size() + kBodyPadding);
  const Respond respond = [shared = shared_, to = weak_from_this()](HttpAnswer answer) {
    asio::dispatch(shared->loop, [to, answer = std::move(answer)]() mutable {
      const auto self = to.lock();
      if (!self || self->stage_ != Stage::kHandle) return;
      try {
        self->write(std::move(answer));
      } catch (const std::exception& why) {
        self->give_up(why.what());
      }
    });
  };
  admission_.handle(std::move(request), respond);
}

// Answers a request that is not read to its end, and ends.
void HttpConnection::refuse(HttpAnswer answer) {
  keep_alive_ = false;
  write(std::move(answer));
}

void HttpConnection::write(HttpAnswer answer) {
  answer_lease_ = BodyLease(shared_->bodies);
  if (answer.body.size() > kSmallAnswer &&
      !answer_lease_.grow(static_cast<int64_t>(answer.body.size())))
    answer = error_answer(503, "the memory for bodies of answers is in use");
  stage_ = Stage::kWrite;
  // A client that has sent its next request already gets both answers.
  const bool ends = shared_->phase != HttpLoop::Phase::kServing && ahead_.empty();
  response_ = {static_cast<http::status>(answer.status), version_, std::move(answer.body)};
  response_.set(http::field::content_type, answer.type);
  for (const auto& [name, value] : answer.headers) response_.set(name, value);
  response_.keep_alive(keep_alive_ && !ends);
  response_.prepare_payload();
  start_timer(shared_->options.request);
  serializer_.emplace(response_);
  const auto done = guarded([](HttpConnection& self, const Code& error) {
    self.answer_lease_ = BodyLease();
    if (error) return self.close();
    self.response_.keep_alive() ? self.begin_request() : self.discard(kLinger);
  });
  if (head_only_) {
    serializer_->split(true);
    http::async_write_header(socket_, *serializer_, done);
  } else {
    http::async_write(socket_, *serializer_, done);
  }
}

void HttpConnection::discard(std::chrono::milliseconds limit) {
  Code ignored;
  stage_ = Stage::kDiscard;
  parser_.reset();
  ahead_ = {};
  socket_.cancel(ignored);
  socket_.shutdown(Socket::shutdown_send, ignored);
  start_timer(limit);
  read_and_discard();
}

void HttpConnection::read_and_discard() {
  socket_.async_wait(Socket::wait_read, guarded([](HttpConnection& self, const Code& error) {
                       Code ended = error;
                       if (!ended) self.socket_.read_some(asio::buffer(self.shared_->piece), ended);
                       if (ended && ended != asio::error::would_block) return self.close();
                       self.read_and_discard();
                     }));
}

// A call of the timer may already be on its way when it is stopped, so calls are numbered.
void HttpConnection::stop_timer() {
  ++timer_call_;
  timer_.cancel();
}

void HttpConnection::start_timer(std::chrono::milliseconds limit) {
  timer_.expires_after(limit);
  timer_.async_wait(guarded([call = ++timer_call_](HttpConnection& self, const Code& error) {
    if (!error && self.timer_call_ == call) self.time_out();
  }));
}

void HttpConnection::time_out() {
  if (stage_ == Stage::kIdle) return discard(kLinger);
  if (stage_ != Stage::kRead) return close();
  Code ignored;
  socket_.cancel(ignored);  // the wait for bytes
  refuse(
      error_answer(408, fmt::format("expected a whole request within {} ms, found {} bytes of its "
                                    "body",
                                    shared_->options.request.count(), parser_->body().size())));
}

}  // namespace hlite::serve
