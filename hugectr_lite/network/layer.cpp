#include "hugectr_lite/network/layer.h"

#include <fmt/format.h>

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

Layer::Layer(config::ObjectReader& reader)
    : type_(reader.string("type")),
      bottoms_(reader.strings("bottom")),
      tops_(reader.strings("top")),
      node_(&reader.node()) {
  name_ = reader.string_or("name", tops_.empty() ? type_ : tops_.front());
  if (bottoms_.empty())
    config::fail_expected(reader.member("bottom"), "the name of at least one tensor");
  if (tops_.empty()) config::fail_expected(reader.member("top"), "the name of at least one tensor");
  traits_.data_bottoms = bottoms_.size();
  traits_.data_tops = tops_.size();
}

LayerShape Layer::infer(const std::vector<Dims>& bottoms) const { return {.tops = {bottoms[0]}}; }

void Layer::expect_bottoms(size_t count) const {
  if (bottoms_.size() != count)
    config::fail_at(*node().find("bottom"),
                    fmt::format("expected {} bottom tensor{}, found {}", count,
                                count == 1 ? "" : "s", bottoms_.size()));
}

void Layer::expect_tops(size_t count) const {
  if (tops_.size() != count)
    config::fail_at(*node().find("top"), fmt::format("expected {} top tensor{}, found {}", count,
                                                     count == 1 ? "" : "s", tops_.size()));
}

void Layer::expect_rank(const Dims& dims, size_t rank, size_t i) const {
  if (dims.size() != rank || dims.folded)
    config::fail_at(
        *node().find("bottom"),
        fmt::format("expected a tensor of {} dimensions beside the batch, found \"{}\" of shape {}",
                    rank, bottoms_[i], to_string(dims)));
}

void Layer::expect_equal_shapes(const std::vector<Dims>& dims) const {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] != dims[0])
      config::fail_at(
          *node().find("bottom"),
          fmt::format("expected equal shapes, found \"{}\" {} and \"{}\" {}", bottoms_[0],
                      to_string(dims[0]), bottoms_[i], to_string(dims[i])));
}

}  // namespace hlite::network
