// Requests of HTTP/1.1 (hugectr_lite/serve/http_parser.h): the first byte says in pieces of how many
// bytes the others come. A request is the same one however the network cuts it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "hugectr_lite/serve/http_parser.h"

namespace {

struct Outcome {
  bool refused = false, whole = false;
  std::string target, body;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(std::string_view bytes, size_t piece) {
  using namespace hlite::serve;
  constexpr uint32_t kMaxHeader = 512;
  constexpr int64_t kMaxBody = 256;
  HttpParser parser(kMaxHeader, BodyLease());
  std::string ahead;
  bool admitted = false;
  while (!bytes.empty() && !parser.refusal() && !parser.is_whole()) {
    ahead += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    ahead.erase(0, parser.read(ahead));
    if (parser.has_head() && !admitted && !parser.refusal()) {
      admitted = true;
      parser.admit(kMaxBody);
      ahead.erase(0, parser.read(ahead));
    }
    const bool waits = !parser.refusal() && !parser.is_whole();
    if (waits && ahead.size() > kMaxHeader) std::abort();
    if (std::ssize(parser.body()) > kMaxBody) std::abort();
  }
  if (parser.refusal()) return {.refused = true};
  if (!parser.is_whole()) return {};
  return {.whole = true, .target = parser.head().target, .body = parser.body()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // What is refused in one piece may be waited for in others, but no cut makes another request.
  const Outcome one = outcome_of(bytes, size), cut = outcome_of(bytes, 1 + data[0] % 16);
  if ((one.whole || cut.whole) && one != cut) std::abort();
  return 0;
}
