// Reads one HTTP/1.1 request from bytes as they come, and refuses what proxies may read otherwise.
//
// Beast splits the bytes; which fields a request may have, and how much of everything, is decided
// here. A field that is read may come once and on one line, Transfer-Encoding is "chunked" or
// absent, and trailers count but mean nothing.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "hugectr_lite/serve/http_server.h"

namespace hlite::serve {

class HttpParser final : private boost::beast::http::basic_parser<true> {
 public:
  // `max_header`: bytes of start line, headers, trailers and chunk extensions together.
  HttpParser(uint32_t max_header, BodyLease lease);

  // Takes bytes up to the end of the head, of the request or of what is useful; returns how many.
  // The others are to be given again, with more.
  size_t read(std::string_view bytes);
  // The client sends no more.
  void end();
  // Lets the body come. REQUIRES has_head().
  void admit(int64_t max_body);
  // Whatever comes, this is the answer.
  void refuse(HttpAnswer answer) { refusal_ = std::move(answer); }

  [[nodiscard]] bool has_head() const { return is_header_done(); }
  [[nodiscard]] bool is_whole() const { return is_done(); }
  // Bytes of the body that are still to come, where the head has its length; else 0.
  [[nodiscard]] uint64_t body_to_come() const {
    return has_head() && length_ ? *length_ - body_.size() : 0;
  }
  // What is wrong with the request.
  [[nodiscard]] std::optional<HttpAnswer>& refusal() { return refusal_; }
  [[nodiscard]] HttpHead& head() { return head_; }
  [[nodiscard]] std::string& body() { return body_; }
  [[nodiscard]] BodyLease& lease() { return lease_; }
  [[nodiscard]] bool expects_continue() const { return expects_continue_; }
  // What the answer must know. REQUIRES has_head().
  [[nodiscard]] bool stays_open() const { return is_done() && keep_alive(); }
  [[nodiscard]] unsigned version() const { return version_; }

 private:
  using Code = boost::beast::error_code;
  using Text = boost::beast::string_view;
  using Field = boost::beast::http::field;
  void on_request_impl(boost::beast::http::verb verb, Text method, Text target, int version,
                       Code& code) override;
  void on_response_impl(int, Text, int, Code&) override {}
  void on_field_impl(Field name, Text name_text, Text value, Code& code) override;
  void on_header_impl(Code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, Code&) override {}
  size_t on_body_impl(Text piece, Code& code) override;
  void on_chunk_header_impl(uint64_t size, Text extensions, Code& code) override;
  size_t on_chunk_body_impl(uint64_t, Text piece, Code& code) override {
    return on_body_impl(piece, code);
  }
  void on_finish_impl(Code&) override {}
  // Ends the reading with that answer.
  void fail(Code& code, int status, const std::string& message);
  void check_framing(size_t waiting, bool waits);

  const uint32_t max_header_;
  BodyLease lease_;
  HttpHead head_;
  std::string body_;
  std::optional<HttpAnswer> refusal_;
  std::optional<uint64_t> length_;  // Content-Length
  uint64_t max_body_ = 0;
  uint64_t taken_ = 0, chunks_ = 0;
  unsigned version_ = 11, seen_ = 0;  // fields, as bits
  bool expects_continue_ = false;
};

}  // namespace hlite::serve
