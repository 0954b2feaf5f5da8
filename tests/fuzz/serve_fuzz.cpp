// Requests to serve (hugectr_lite/serve/kserve.h): the first two bytes say how much of the rest is
// JSON; what follows that are the bytes of tensors.
#include <cstddef>
#include <cstdint>
#include <string>

#include "hugectr_lite/serve/http_server.h"
#include "hugectr_lite/serve/kserve.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hlite::serve;
  static const ModelDescription model = {
      .name = "m",
      .versions = {"1"},
      .inputs = {{.name = "dense", .type = DataType::kFp32, .shape = {-1, 2}},
                 {.name = "keys",
                  .type = DataType::kInt64,
                  .also = {DataType::kInt32, DataType::kUint32},
                  .shape = {-1, 3}},
                 {.name = "text", .type = DataType::kBytes, .shape = {-1, 1}}},
      .outputs = {{.name = "score", .type = DataType::kFp32, .shape = {-1, 1}}}};
  if (size < 2) return 0;
  const size_t cut = data[0] | static_cast<size_t>(data[1]) << 8;
  std::string body(reinterpret_cast<const char*>(data) + 2, size - 2);
  body.reserve(body.size() + kBodyPadding);
  try {
    static_cast<void>(parse_infer(body, cut == 0 ? "" : std::to_string(cut), model));
  } catch (const RequestError&) {
  }
  try {
    static_cast<void>(parse_load(body));
  } catch (const RequestError&) {
  }
  return 0;
}
