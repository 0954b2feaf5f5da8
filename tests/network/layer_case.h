// Small networks around one layer.
#pragma once

#include <string>

#include "tests/network/network_fixture.h"

namespace hlite::test {

constexpr int64_t kBatch = 7;

// An inner product of `out` numbers.
inline std::string fc(const std::string& bottom, const std::string& top, int out) {
  return R"({"type":"InnerProduct","bottom":")" + bottom + R"(","top":")" + top +
         R"(","fc_param":{"num_output":)" + std::to_string(out) + "}}";
}
inline const std::string kLoss =
    R"({"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"})";

// Inputs: label [B,1], dense [B,5] (no gradient), emb [B,3,4] (gradient wanted); where the layers
// name them, the histories history [B,5,4] of lengths history_len, and recent [B,3,4] of recent_len
// (gradients wanted).
inline NetworkFixture make(const std::string& layers, const std::string& loss = kLoss,
                           FloatType type = FloatType::kFloat, const Exec* device = nullptr) {
  std::vector<NetworkFixture::Input> inputs = {
      {"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}};
  if (layers.find("\"history") != std::string::npos) add_history(inputs, "history", {5, 4});
  if (layers.find("\"recent") != std::string::npos) add_history(inputs, "recent", {3, 4});
  return NetworkFixture(layers + "," + loss, inputs, kBatch, 2, false, type, device);
}

// All gradients against finite differences of `loss_of`, the mean loss in double.
template <typename LossOf>
void check_gradients(NetworkFixture& f, LossOf&& loss_of) {
  // Logits carry 6e-8 relative noise; over 2e-3 that is 3e-5 in a difference.
  f.check_gradients(loss_of, 1e-3f, {.absolute = 1e-4, .relative = 2e-3});
}
inline void check_gradients(NetworkFixture& f) {
  check_gradients(f, [](NetworkFixture& g) { return bce_of(g, g.input(0)); });
}

}  // namespace hlite::test
