#include "hugectr_lite/network/layer.h"

#include <fmt/format.h>

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

Wiring read_wiring(config::ObjectReader& reader) {
  Wiring w;
  w.type = reader.string("type");
  w.bottoms = reader.strings("bottom");
  w.tops = reader.strings("top");
  w.name = reader.string_or("name", w.tops.empty() ? w.type : w.tops.front());
  for (const auto& [key, names] : {std::pair("bottom", &w.bottoms), std::pair("top", &w.tops)})
    if (names->empty())
      config::fail_expected(reader.member(key), "the name of at least one tensor");
  return w;
}

void expect_tensors(const config::JsonNode& node, const char* key,
                    const std::vector<std::string>& names, size_t count) {
  if (names.size() != count)
    config::fail_at(*node.find(key), fmt::format("expected {} {} tensor{}, found {}", count, key,
                                                 count == 1 ? "" : "s", names.size()));
}

Layer::Layer(config::ObjectReader& reader) : Layer(reader.node(), read_wiring(reader)) {}

Layer::Layer(const config::JsonNode& node, Wiring wiring)
    : wiring_(std::move(wiring)), node_(&node) {
  traits_.data_bottoms = bottoms().size();
  traits_.data_tops = tops().size();
}

LayerShape Layer::infer(const std::vector<Dims>& bottoms) const { return {.tops = {bottoms[0]}}; }

void Layer::expect_bottoms(size_t count) const {
  expect_tensors(node(), "bottom", bottoms(), count);
}
void Layer::expect_tops(size_t count) const { expect_tensors(node(), "top", tops(), count); }

void Layer::expect_one_each() const {
  expect_bottoms(1);
  expect_tops(1);
}

void Layer::expect_rank(const Dims& dims, size_t rank, size_t i) const {
  if (dims.size() != rank || dims.folded)
    config::fail_at(
        *node().find("bottom"),
        fmt::format("expected a tensor of {} dimensions beside the batch, found \"{}\" of shape {}",
                    rank, bottoms()[i], to_string(dims)));
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
