// What dropout keeps, and when.
#include <algorithm>

#include "tests/network/layer_case.h"

namespace hlite::test {

TEST_CASE("dropout scales what it keeps, changes with the step, and copies in evaluation") {
  auto f = make(
      R"({"type":"Dropout","bottom":"emb","top":"d","rate":0.25},{"type":"Reshape","bottom":"d","top":"e"},
      {"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
      fc("c", "z", 1));
  f.train();
  const auto emb = f.input(2), d = f.tensor("d");
  const std::vector<float> first(d.begin(), d.end());
  size_t kept = 0;
  for (size_t i = 0; i < emb.size(); ++i) {
    const bool drop = d[i] == 0;
    kept += !drop;
    if (!drop) CHECK(d[i] == Approx(emb[i] / 0.75f).epsilon(1e-6));
  }
  CHECK(kept > emb.size() / 2);
  CHECK(kept < emb.size());
  f.train();
  CHECK(std::equal(first.begin(), first.end(), f.tensor("d").begin()));  // the same step
  f.evaluate();
  CHECK(std::equal(emb.begin(), emb.end(), f.tensor("d").begin()));
}

}  // namespace hlite::test
