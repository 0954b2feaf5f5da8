// Reshape, Slice and Concat together: what goes where, exactly.
#include <algorithm>

#include "tests/network/layer_case.h"

namespace hlite::test {

TEST_CASE("layers that move data move it exactly") {
  auto f = make(R"({"type":"Reshape","bottom":"emb","top":"e","selected":[2,0]},
      {"type":"Concat","bottom":["e","dense"],"top":"c"},
      {"type":"Slice","bottom":"c","top":["p","q"],"ranges":[[1,4],[3,13]]},
      {"type":"Concat","bottom":["p","q"],"top":"all"},)" +
                fc("all", "z", 1));
  f.evaluate();
  const auto emb = f.input(2), dense = f.input(1), all = f.tensor("all");
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<float> c;
    for (const size_t slot : {2u, 0u})
      for (size_t v = 0; v < 4; ++v) c.push_back(emb[(b * 3 + slot) * 4 + v]);
    for (size_t v = 0; v < 5; ++v) c.push_back(dense[b * 5 + v]);
    std::vector<float> want(c.begin() + 1, c.begin() + 4);
    want.insert(want.end(), c.begin() + 3, c.begin() + 13);
    CHECK(std::equal(want.begin(), want.end(), all.begin() + static_cast<std::ptrdiff_t>(b * 13)));
  }
}

// DeepFM's way: a vector and a weight of each slot, apart.
TEST_CASE("rows that are more than the batch, and dimensions beyond two, move exactly") {
  auto f = make(R"({"type":"Reshape","bottom":"emb","top":"rows","leading_dim":4},
      {"type":"Slice","bottom":"rows","top":["v","w"],"ranges":[[0,3],[3,4]]},
      {"type":"Reshape","bottom":"v","top":"vectors","leading_dim":9},
      {"type":"Reshape","bottom":"w","top":"weights","leading_dim":3},
      {"type":"Concat","bottom":["w","v"],"top":"turned"},
      {"type":"Reshape","bottom":"turned","top":"cube","leading_dim":4,"time_step":3},
      {"type":"Concat","bottom":["cube","emb"],"axis":2,"top":"wide"},
      {"type":"Concat","bottom":["cube","emb"],"top":"long"},
      {"type":"Reshape","bottom":"wide","top":"flat_wide"},{"type":"Reshape","bottom":"long","top":"flat_long"},
      {"type":"Concat","bottom":["vectors","weights","flat_wide","flat_long","dense"],"top":"c"},)" +
                fc("c", "z", 1));
  f.evaluate();
  const auto emb = f.input(2), vectors = f.tensor("vectors"), weights = f.tensor("weights");
  const auto wide = f.tensor("wide"), tall = f.tensor("long");
  for (size_t row = 0; row < size_t{kBatch} * 3; ++row) {
    const float* const e = &emb[row * 4];
    const std::vector<float> turned = {e[3], e[0], e[1], e[2]};
    CHECK(weights[row] == e[3]);
    CHECK(std::equal(e, e + 3, &vectors[row * 3]));
    CHECK(std::equal(turned.begin(), turned.end(), &wide[row * 8]));
    CHECK(std::equal(e, e + 4, &wide[row * 8 + 4]));
    const size_t sample = row / 3, slot = row % 3;
    CHECK(std::equal(turned.begin(), turned.end(), &tall[(sample * 6 + slot) * 4]));
    CHECK(std::equal(e, e + 4, &tall[(sample * 6 + 3 + slot) * 4]));
  }
  check_gradients(f);
}

// Several readers on either side of the views, each with a gradient of its own.
TEST_CASE("another shape or name costs neither memory nor steps") {
  auto f = make(
      R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Cast","bottom":"e","top":"f"},)" +
      fc("e", "h", 3) + "," + fc("f", "g", 2) +
      R"(,{"type":"Reshape","bottom":"emb","top":"r","leading_dim":4},
      {"type":"Slice","bottom":"r","top":["p"],"ranges":[[1,3]]},
      {"type":"Reshape","bottom":"p","top":"q","leading_dim":6},
      {"type":"Concat","bottom":["h","g","q","f","dense"],"top":"c"},)" +
      fc("c", "z", 1));
  check_gradients(f);
  const auto entry = [&](const std::string& name) {
    const auto& all = f.net().tensors();
    return *std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.name == name; });
  };
  for (const char* const of : {"e", "f", "r"}) CHECK(entry(of).value == entry("emb").value);
  CHECK(entry("q").value == entry("p").value);
  CHECK(entry("q").grad == entry("p").grad);
  // emb has two readers, e two more: what they wrote is added up into the parts of those above.
  CHECK(entry("e").grad == entry("emb").consumer_grads[0]);
  CHECK(entry("r").grad == entry("emb").consumer_grads[1]);
  CHECK(entry("f").grad == entry("e").consumer_grads[0]);
  for (const auto& step : f.train_plan().steps())
    for (const char* const view : {"e", "f", "q", "r"}) {
      CHECK(step.name != std::string(view) + ".fprop");
      CHECK(step.name != std::string(view) + ".bprop");
    }
}

}  // namespace hlite::test
