// Add: y = x_1 + ... + x_n, equal shapes, n >= 2.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class AddLayer : public Layer {
 public:
  explicit AddLayer(config::ObjectReader& reader) : Layer(reader) {
    if (bottoms().size() < 2)
      config::fail_at(
          reader.member("bottom"),
          fmt::format("expected at least 2 bottom tensors, found {}", bottoms().size()));
    expect_tops(1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 1; i < dims.size(); ++i)
      if (dims[i] != dims[0])
        config::fail_at(
            *node().find("bottom"),
            fmt::format("expected equal shapes, found \"{}\" {} and \"{}\" {}", bottoms()[0],
                        to_string(dims[0]), bottoms()[i], to_string(dims[i])));
    return {.tops = {dims[0]}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    std::vector<BufferId> inputs;
    for (const LayerTensor& x : io.bottoms) inputs.push_back(x.value);
    add_sum_step(plan, io.type, name() + ".fprop", inputs, io.tops[0].value, io.tops[0].dims);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    for (size_t i = 0; i < io.bottoms.size(); ++i)
      add_copy_step(plan, io.type, fmt::format("{}.bprop{}", name(), i), io.tops[0].grad,
                    io.bottoms[i].grad, io.tops[0].dims);
  }
};

}  // namespace

std::unique_ptr<Layer> make_add(config::ObjectReader& reader) {
  return std::make_unique<AddLayer>(reader);
}

}  // namespace hlite::network
