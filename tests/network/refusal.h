// Networks that must be refused, and what the message says.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/network/network_fixture.h"

namespace hlite::test {

// Inputs: label [B,1], dense [B,5], emb [B,3,4]; history [B,5,4] of lengths history_len, and recent
// [B,5,4] of recent_len. A network is kBottom, which makes x [B,4] of
// dense, kInteraction, h of x and emb, and kTail, the loss of h, with what is wrong in place of
// one.
inline const std::string kBottom =
    R"({"name":"fx","type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":4}},)";
inline const std::string kInteraction =
    R"({"name":"i","type":"Interaction","bottom":["x","emb"],"top":"h"},)";
inline const std::string kTail =
    R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
  {"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"})";

inline std::string refused(const std::string& layers) {
  try {
    std::vector<NetworkFixture::Input> inputs = {
        {"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}};
    add_history(inputs, "history", {5, 4});
    add_history(inputs, "recent", {5, 4});
    NetworkFixture f(layers, inputs, 2);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

struct Refusal {
  const char* what;
  std::string layers;
  std::vector<std::string> says;
  bool located = true;  // the message starts with file and line
};

inline void check_refusals(const std::vector<Refusal>& list) {
  for (const Refusal& r : list) {
    INFO(r.what);
    const std::string said = refused(r.layers);
    INFO(said);
    if (r.located) CHECK(said.rfind("test.json:", 0) == 0);
    for (const std::string& part : r.says) {
      INFO(part);
      CHECK(said.find(part) != std::string::npos);
    }
  }
}

}  // namespace hlite::test
