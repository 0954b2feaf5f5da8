// Products of tensors where they are 0.
#include "tests/network/layer_case.h"

namespace hlite::test {

TEST_CASE("a product has the right gradient where it is 0") {
  auto f = make(fc("dense", "h", 12) + R"(,{"type":"Reshape","bottom":"emb","top":"e"},
      {"type":"ElementwiseMultiply","bottom":["h","e"],"top":"s"},)" +
                fc("s", "z", 1));
  for (size_t i = 0; i < f.input(2).size(); i += 2) f.input(2)[i] = 0;
  f.train();
  const auto gradient = f.floats(f.net().input_grad(2));
  for (size_t i = 0; i < gradient.size(); i += 2) CHECK(gradient[i] != 0);
  check_gradients(f);
}

}  // namespace hlite::test
