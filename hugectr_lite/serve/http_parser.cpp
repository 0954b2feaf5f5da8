#include "hugectr_lite/serve/http_parser.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <limits>

#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::serve {

namespace http = boost::beast::http;
using boost::beast::iequals;

namespace {

// A chunk's size and its two line ends, at most: what is more is counted as headers are.
constexpr uint64_t kChunkLine = 20;

std::string_view view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Fields that mean something here, and where they go.
struct KnownField {
  std::string_view name;
  std::string HttpHead::*to = nullptr;
};
constexpr KnownField kFields[] = {{"Host", &HttpHead::host},
                                  {"Authorization", &HttpHead::authorization},
                                  {"Origin", &HttpHead::origin},
                                  {"Content-Type", &HttpHead::content_type},
                                  {"Content-Encoding", &HttpHead::content_encoding},
                                  {"Inference-Header-Content-Length", &HttpHead::json_length},
                                  {"Content-Length"},
                                  {"Transfer-Encoding"},
                                  {"Expect"}};

}  // namespace

HttpParser::HttpParser(uint32_t max_header, BodyLease lease)
    : max_header_(max_header), lease_(std::move(lease)) {
  // The limits are those of admit() and check_framing(): Beast's are on each piece alone.
  header_limit(std::numeric_limits<uint32_t>::max());
  body_limit(std::numeric_limits<uint64_t>::max());
}

size_t HttpParser::read(std::string_view bytes) {
  size_t taken = 0;
  const bool had_head = has_head();
  while (taken < bytes.size() && !refusal_ && !is_done() && has_head() == had_head) {
    Code code;
    const size_t n = put({bytes.data() + taken, bytes.size() - taken}, code);
    taken += n;
    taken_ += n;
    if (refusal_) break;
    const bool waits = code == http::error::need_more;
    check_framing(waits ? bytes.size() - taken : 0, waits);
    if (waits) break;
    if (code) fail(code, 400, "expected an HTTP/1.1 request, found one with a " + code.message());
  }
  return taken;
}

// Of what is no body: one limit for everything, wherever in the request it comes.
void HttpParser::check_framing(size_t waiting, bool waits) {
  // The last chunk is seen with all of its trailers.
  const uint64_t most = max_header_ + body_.size() + kChunkLine * (chunks_ + (waits ? 1 : 0));
  Code ignored;
  if (!refusal_ && taken_ + waiting > most)
    fail(ignored, 431,
         fmt::format("expected headers and trailers of at most {} bytes, found more", max_header_));
}

void HttpParser::end() {
  Code ignored;
  fail(ignored, 400,
       fmt::format("expected a whole request, found its end after {} bytes of the body",
                   body_.size()));
}

void HttpParser::admit(int64_t max_body) {
  max_body_ = static_cast<uint64_t>(max_body);
  Code ignored;
  if (!length_) return;
  if (*length_ > max_body_)
    return fail(ignored, 413,
                fmt::format("expected a body of at most {} bytes, found Content-Length: {}",
                            max_body_, *length_));
  // It would be refused later, but more would have been sent in vain.
  if (!lease_.has_room_for(static_cast<int64_t>(*length_)))
    fail(ignored, 503, "the memory for bodies of requests is in use");
}

void HttpParser::fail(Code& code, int status, const std::string& message) {
  code = http::error::bad_value;
  refusal_ = error_answer(status, message);
}

void HttpParser::on_request_impl(http::verb, Text method, Text target, int version, Code&) {
  version_ = static_cast<unsigned>(version);
  head_.method = view_of(method);
  head_.target = view_of(target.substr(0, target.find('?')));
}

void HttpParser::on_field_impl(Field, Text name, Text value, Code& code) {
  // Beast joins lines that are folded, and points to what it has joined.
  const char* begin = name.data() + name.size() + 1;
  while (*begin == ' ' || *begin == '\t') ++begin;
  if (begin != value.data())
    return fail(code, 400, "expected each header in one line, found one in several");
  if (has_head()) return;  // a trailer
  const auto known = std::find_if(std::begin(kFields), std::end(kFields), [&](const auto& field) {
    return iequals({field.name.data(), field.name.size()}, name);
  });
  if (known == std::end(kFields)) return;
  const unsigned bit = 1u << (known - std::begin(kFields));
  if ((seen_ & bit) != 0)
    return fail(code, 400, fmt::format("expected one header {}, found two", known->name));
  seen_ |= bit;
  if (known->to != nullptr) {
    head_.*known->to = view_of(value);
  } else if (known->name == "Content-Length") {
    const bool digits =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) length_ = parse_number<uint64_t>(view_of(value));
    if (!length_)
      fail(code, 400,
           "Content-Length: expected a number of bytes, found " + in_quotes(view_of(value)));
  } else if (known->name == "Transfer-Encoding") {
    if (!iequals(value, "chunked") || version_ < 11)
      fail(code, 400,
           "Transfer-Encoding: expected \"chunked\" in HTTP/1.1 or none, found " +
               in_quotes(view_of(value)));
  } else {
    expects_continue_ = version_ >= 11 && iequals(value, "100-continue");
  }
}

size_t HttpParser::on_body_impl(Text piece, Code& code) {
  if (!lease_.grow(static_cast<int64_t>(piece.size()))) {
    fail(code, 503, "the memory for bodies of requests is in use");
    return 0;
  }
  const size_t wanted = body_.size() + piece.size() + kBodyPadding;
  // Memory that is not written to is none: of a length that is known the most is reserved ahead,
  // so that little is copied.
  if (body_.capacity() < wanted) {
    body_.reserve(length_ ? std::min<size_t>(8 * wanted, *length_ + kBodyPadding) : 2 * wanted);
  }
  body_.append(piece.data(), piece.size());
  return piece.size();
}

void HttpParser::on_chunk_header_impl(uint64_t size, Text, Code& code) {
  ++chunks_;
  if (size > max_body_ - body_.size())
    fail(code, 413, fmt::format("expected a body of at most {} bytes, found more", max_body_));
}

}  // namespace hlite::serve
