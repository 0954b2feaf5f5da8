// MultiHeadAttention's mask and histories. Without them: layers_test.cpp; its formula:
// tests/ops/attention_test.cpp.
#include "hugectr_lite/core/error.h"
#include "tests/network/layer_case.h"

namespace hlite::test {
namespace {

const std::string kAround =
    R"({"name":"a","type":"MultiHeadAttention","num_attention_heads":2,"bottom":["emb","emb","emb","mask"],"top":"a"},
    {"type":"Reshape","bottom":"a","top":"e"},)" +
    fc("e", "z", 1) + "," + kLoss;

struct MaskedAttention : NetworkFixture {
  explicit MaskedAttention(bool needs_grad = false)
      : NetworkFixture(kAround,
                       {{"label", {1}}, {"emb", {3, 4}, true}, {"mask", {1, 3, 3}, needs_grad}},
                       kBatch) {
    // The last row sees nothing.
    for (size_t i = 0; i < input(2).size(); ++i) input(2)[i] = i % 9 < 6 && i % 5 < 3 ? 1 : 0;
  }
};

}  // namespace

TEST_CASE("gradients of attention behind a mask agree with finite differences") {
  MaskedAttention f;
  check_gradients(f);
}

TEST_CASE("rows that see no key become 0, and a mask gets no gradient") {
  MaskedAttention f(true);
  f.train();
  const auto top = f.tensor("a");
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t c = 8; c < 12; ++c) CHECK(top[b * 12 + c] == 0);
  for (const float g : f.floats(f.net().input_grad(2))) CHECK(g == 0);
}

TEST_CASE("attention over a history needs a mask, and its rows are those of Q") {
  network::Dims history = {3, 4};
  history.lengths = "len";
  const auto around = [&](const std::string& bottoms) {
    return R"({"type":"MultiHeadAttention","bottom":[)" + bottoms + R"(],"top":"a"},)" +
           fc("a", "b", 2) + R"(,{"type":"Reshape","bottom":"b","top":"e"},)" + fc("e", "z", 1) +
           "," + kLoss;
  };
  const auto network = [&](const std::string& bottoms) {
    return NetworkFixture(around(bottoms),
                          {{"label", {1}},
                           {"x", history, true},
                           {"q", {3, 4}, true},
                           {"mask", {1, 3, 3}},
                           {"len", network::lengths_dims("len")}},
                          2);
  };
  const auto lengths_of = [](NetworkFixture& f) {
    for (const auto& t : f.net().tensors())
      if (t.name == "b") return t.dims.lengths;
    return std::string("none");
  };
  try {
    network(R"("q","x","x")");
    FAIL("accepted");
  } catch (const ConfigError& e) {
    CHECK(std::string(e.what()).find("expected a mask as bottom 3, as \"x\" is a history of "
                                     "lengths \"len\", found none") != std::string::npos);
  }
  auto of_history = network(R"("x","x","x","mask")"), of_rows = network(R"("q","x","x","mask")");
  CHECK(lengths_of(of_history) == "len");
  CHECK(lengths_of(of_rows).empty());
}

}  // namespace hlite::test
