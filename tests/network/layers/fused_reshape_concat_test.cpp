// Checks where FusedReshapeConcat, and Scale after it, put each value.
#include <algorithm>

#include "tests/network/layer_case.h"

namespace hlite::test {

TEST_CASE(
    "FusedReshapeConcat separates the last slot, and Scale repeats single values or whole rows") {
  auto f = make(R"({"type":"Slice","bottom":"emb","top":["p","q"],"ranges":[[0,1],[1,4]]},
      {"type":"FusedReshapeConcat","bottom":["q","p"],"top":["items","target"]},
      {"name":"s0","type":"Scale","bottom":"target","top":"t0","scale_param":{"axis":0,"factor":2}},
      {"name":"s1","type":"Scale","bottom":"target","top":"t1","scale_param":{"axis":1,"factor":2}},
      {"type":"Reshape","bottom":"items","top":"e","leading_dim":8},{"type":"Reshape","bottom":"t1","top":"e1","leading_dim":8},
      {"type":"Concat","bottom":["e","t0","e1","dense"],"top":"c"},)" +
                fc("c", "z", 1));
  f.evaluate();
  const auto emb = f.input(2), items = f.tensor("items"), target = f.tensor("target");
  const auto values = f.tensor("t0"), rows = f.tensor("t1");
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t slot = 0; slot < 3; ++slot) {
      const float* const e = &emb[(b * 3 + slot) * 4];
      const std::vector<float> rotated = {e[1], e[2], e[3], e[0]};
      const float* const got = slot < 2 ? &items[(b * 2 + slot) * 4] : &target[b * 4];
      CHECK(std::equal(rotated.begin(), rotated.end(), got));
      if (slot < 2) continue;
      for (size_t i = 0; i < 8; ++i) {
        CHECK(values[b * 8 + i] == rotated[i / 2]);
        CHECK(rows[b * 8 + i] == rotated[i % 4]);
      }
    }
}

}  // namespace hlite::test
