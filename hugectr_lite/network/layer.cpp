#include "hugectr_lite/network/layer.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::network {

int64_t elements(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

int64_t rows_of_sample(const Dims& dims) {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) n *= dims[i];
  return n;
}

std::string to_string(const Dims& dims) {
  if (dims.folded) return fmt::format("[{} B,{}]", dims[0], dims[1]);
  return fmt::format("[B,{}]", fmt::join(dims.begin(), dims.end(), ","));
}

Dims lengths_dims(std::string name) {
  Dims dims = {1};
  dims.lengths = std::move(name);
  dims.is_lengths = true;
  return dims;
}

Wiring declare_wiring(Block& s) {
  Wiring w;
  s.text("type", &w.type, "One of the types above.", kRequired);
  for (const auto& [key, names, meaning] :
       {std::tuple("bottom", &w.bottoms, "The tensors that it reads."),
        std::tuple("top", &w.tops, "The tensors that it makes.")})
    if (s.strings(key, names, meaning, kRequired) && names->empty())
      s.expected(key, "the name of at least one tensor");
  w.name = w.tops.empty() ? w.type : w.tops.front();
  s.text("name", &w.name, "Name of the layer and prefix of its parameters: `<name>.weight`.",
         otherwise("the first `top`"));
  return w;
}

void expect_tensors(Block& s, const char* key, const std::vector<std::string>& names,
                    size_t count) {
  if (!names.empty() && names.size() != count)
    s.refuse(key, fmt::format("expected {} {} tensor{}, found {}", count, key,
                              count == 1 ? "" : "s", names.size()));
}

Layer::Layer(Block& s) : wiring_(declare_wiring(s)), node_(s.node()) {
  traits_.data_bottoms = bottoms().size();
  traits_.data_tops = tops().size();
}

Layer::Layer(const config::JsonNode& node, Wiring wiring)
    : wiring_(std::move(wiring)), node_(&node) {
  traits_.data_bottoms = bottoms().size();
  traits_.data_tops = tops().size();
}

LayerShape Layer::infer(const std::vector<Dims>& bottoms) const {
  return {.tops = {bottoms[0]}, .rows = Rows::kAlike};
}

void Layer::expect_bottoms(Block& s, size_t count) const {
  expect_tensors(s, "bottom", bottoms(), count);
}
void Layer::expect_tops(Block& s, size_t count) const { expect_tensors(s, "top", tops(), count); }

void Layer::expect_one_each(Block& s) const {
  expect_bottoms(s, 1);
  expect_tops(s, 1);
}

void Layer::expect_rank(const Dims& dims, size_t rank, size_t i) const {
  if (dims.size() != rank || dims.folded)
    config::fail_at(
        *node().find("bottom"),
        fmt::format(
            "expected a tensor of {} dimensions besides the batch, found \"{}\" of shape {}", rank,
            bottoms()[i], to_string(dims)));
}

void Layer::expect_lengths(const std::vector<Dims>& dims, size_t i, size_t of) const {
  const Dims &lengths = dims[i], &x = dims[of];
  const auto fail = [&](const std::string& expected) {
    config::fail_at(*node().find("bottom"), fmt::format("expected {}, found \"{}\" {}", expected,
                                                        bottoms()[i], to_string(lengths)));
  };
  if (!lengths.is_lengths) fail(fmt::format("lengths as bottom {}", i));
  if (!x.lengths.empty() && x.lengths != lengths.lengths)
    fail(fmt::format("\"{}\", the lengths of \"{}\", as bottom {}", x.lengths, bottoms()[of], i));
}

void Layer::expect_equal_shapes(const std::vector<Dims>& dims) const {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] != dims[0])
      config::fail_at(
          *node().find("bottom"),
          fmt::format("expected equal shapes, found \"{}\" {} and \"{}\" {}", bottoms()[0],
                      to_string(dims[0]), bottoms()[i], to_string(dims[i])));
}

}  // namespace hlite::network
