#include "hugectr_lite/trainer/tune/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

namespace hlite::trainer {
namespace {

using config::JsonNode;

// Rows that are seldom seen want a penalty that is strong, and frequent ones hardly any: this axis
// is the longest.
const Axis kRates{.name = "learning_rate", .steps = {}, .least = 0.25, .most = 4};
const Axis kPenalties{.name = "lambda", .steps = {}, .least = 1.0 / 30, .most = 10};
const Axis kDropout{.name = "Dropout rate", .steps = {0, 0.1, 0.2, 0.3, 0.5}, .replaces = true};
const Axis kWidths{.name = "widths", .steps = {0.5, 1, 2}, .whole = true};

// Layers whose output has the width of their input, which may be any.
constexpr std::array<std::string_view, 12> kKeepWidth = {
    "BatchNorm", "Cast",       "Concat",     "Dropout", "ELU",     "GELU",
    "LayerNorm", "MultiCross", "PReLU_Dice", "ReLU",    "Sigmoid", "Tanh"};
// Layers whose weights take an input of any width.
constexpr std::array<std::string_view, 3> kTakeAnyWidth = {"FusedInnerProduct", "InnerProduct",
                                                           "MLP"};

constexpr std::array<std::string_view, 1> kDrop = {"Dropout"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& types, const JsonNode& layer) {
  const JsonNode* const type = layer.find("type");
  return type && type->kind() == JsonNode::Kind::kString &&
         std::find(types.begin(), types.end(), type->string()) != types.end();
}

// The strings of a value that is one or a list of them.
std::vector<std::string_view> names_of(const JsonNode* node) {
  if (!node) return {};
  if (node->kind() == JsonNode::Kind::kString) return {node->string()};
  std::vector<std::string_view> names;
  for (const JsonNode& element : node->elements())
    if (element.kind() == JsonNode::Kind::kString) names.push_back(element.string());
  return names;
}

// Returns true if a tensor may have any width: all that read it, through layers that keep it, are
// layers whose weights are as wide. `open`: tensors above this one.
bool takes_any_width(const std::vector<JsonNode>& layers, std::string_view tensor,
                     std::set<std::string_view> open) {
  if (!open.insert(tensor).second) return false;
  bool read = false;
  for (const JsonNode& layer : layers) {
    const auto bottoms = names_of(layer.find("bottom"));
    if (std::find(bottoms.begin(), bottoms.end(), tensor) == bottoms.end()) continue;
    read = true;
    if (is_among(kTakeAnyWidth, layer)) continue;
    const auto tops = names_of(layer.find("top"));
    if (!is_among(kKeepWidth, layer) || tops.size() != 1 || !takes_any_width(layers, tops[0], open))
      return false;
  }
  return read;
}

void add_value(const JsonNode& node, Axis& axis) {
  if (node.is_number() && node.number() >= 0) axis.values.emplace_back(node.path(), node.number());
}

// Every number of this name, however deep; 0 has no multiples.
void add_members(const JsonNode& node, std::string_view key, Axis& axis) {
  for (const JsonNode& element : node.elements()) add_members(element, key, axis);
  for (const auto& [name, value] : node.members())
    if (name == key && value.is_number() && value.number() > 0)
      add_value(value, axis);
    else
      add_members(value, key, axis);
}

// Every learning rate, and the object that it is in.
void add_rates(const JsonNode& node, Axis& axis, std::vector<RateBlock>& blocks,
               std::vector<std::string>& removed) {
  for (const JsonNode& element : node.elements()) add_rates(element, axis, blocks, removed);
  for (const auto& [name, value] : node.members()) {
    if (name != kRates.name || !value.is_number() || value.number() <= 0) {
      add_rates(value, axis, blocks, removed);
      continue;
    }
    add_value(value, axis);
    const JsonNode* const warmup = node.find("warmup_steps");
    const bool waits = warmup && warmup->kind() == JsonNode::Kind::kInteger;
    blocks.push_back({node.path(), waits ? warmup->integer() : 0, node.find("decay") != nullptr});
    if (const JsonNode* rate = node.find("decay_rate")) removed.push_back(rate->path() + "=");
  }
}

void add_widths(const std::vector<JsonNode>& layers, Axis& axis) {
  for (const JsonNode& layer : layers) {
    const auto tops = names_of(layer.find("top"));
    const bool any = tops.size() == 1 && takes_any_width(layers, tops[0], {});
    const JsonNode* const fc = layer.find("fc_param");
    const JsonNode* const width = fc ? fc->find("num_output") : nullptr;
    if (width && any && is_among(kTakeAnyWidth, layer)) add_value(*width, axis);
    const JsonNode* const mlp = layer.find("mlp_param");
    const JsonNode* const widths = mlp ? mlp->find("num_outputs") : nullptr;
    if (!widths) continue;
    for (const JsonNode& hidden : widths->elements())
      if (any || &hidden != &widths->elements().back()) add_value(hidden, axis);
  }
}

// Two significant digits.
double rounded(double value) { return std::stod(fmt::format("{:.2g}", value)); }

double changed(const Axis& axis, double place, double value) {
  const double step = axis.at(place);
  if (axis.replaces) return step;
  return axis.whole ? std::max(1.0, std::round(value * step)) : rounded(value * step);
}

}  // namespace

double Axis::at(double place) const {
  if (steps.empty()) return least * std::pow(most / least, place);
  const auto count = static_cast<double>(steps.size());
  return steps[static_cast<size_t>(std::clamp(place * count, 0.0, count - 1))];
}

double Axis::own() const {
  if (steps.empty()) return std::log(1 / least) / std::log(most / least);
  const double value = replaces ? values.front().second : 1;
  size_t nearest = 0;
  for (size_t i = 1; i < steps.size(); ++i)
    if (std::abs(steps[i] - value) < std::abs(steps[nearest] - value)) nearest = i;
  return (static_cast<double>(nearest) + 0.5) / static_cast<double>(steps.size());
}

SearchSpace::SearchSpace(const JsonNode& root) {
  Axis rates = kRates, penalties = kPenalties, dropout = kDropout, widths = kWidths;
  if (const JsonNode* optimizer = root.find("optimizer"))
    add_rates(*optimizer, rates, blocks_, removed_);
  if (const JsonNode* layers = root.find("layers")) {
    add_rates(*layers, rates, blocks_, removed_);
    add_members(*layers, "lambda", penalties);
    for (const JsonNode& layer : layers->elements())
      if (const JsonNode* rate = layer.find("rate"); rate && is_among(kDrop, layer))
        add_value(*rate, dropout);
    add_widths(layers->elements(), widths);
  }
  if (const JsonNode* solver = root.find("solver"))
    for (const char* key : {"lr_plateau", "num_epochs"})
      if (const JsonNode* node = solver->find(key)) removed_.push_back(node->path() + "=");
  for (Axis* axis : {&rates, &penalties, &dropout, &widths})
    if (!axis->values.empty()) axes_.push_back(std::move(*axis));
}

Point SearchSpace::own() const {
  Point point;
  for (const Axis& axis : axes_) point.push_back(axis.own());
  return point;
}

Point SearchSpace::even(int64_t n) const {
  // The root of x^(d + 1) = x + 1.
  double ratio = 1.5;
  for (int i = 0; i < 64; ++i)
    ratio = std::pow(1 + ratio, 1 / (static_cast<double>(axes_.size()) + 1));
  Point point;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const double step = std::pow(ratio, -static_cast<double>(axis + 1));
    const double place = 0.5 + static_cast<double>(n) * step;
    point.push_back(place - std::floor(place));
  }
  return point;
}

Point SearchSpace::even_around(const Point& centre, int64_t n) const {
  Point point = even(n);
  for (size_t axis = 0; axis < point.size(); ++axis) {
    const double begin = std::clamp(centre[axis] - 0.25, 0.0, 0.5);
    point[axis] = begin + point[axis] / 2;
  }
  return point;
}

std::vector<std::string> SearchSpace::changes(const Point& point) const {
  std::vector<std::string> all;
  for (size_t i = 0; i < axes_.size(); ++i)
    for (const auto& [path, value] : axes_[i].values)
      all.push_back(fmt::format("{}={}", path, changed(axes_[i], point[i], value)));
  return all;
}

std::vector<std::string> SearchSpace::schedule(const Point& point, int64_t iterations,
                                               int64_t constant) const {
  constexpr double kLastShare = 0.01;
  std::vector<std::string> all = removed_;
  all.push_back(fmt::format("solver.max_iter={}", iterations));
  const Axis& rates = axes_.front();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const RateBlock& block = blocks_[i];
    const int64_t start = std::max({int64_t{1}, constant, block.warmup_steps});
    const double rate = changed(rates, point[0], rates.values[i].second);
    if (block.has_decay) all.push_back(block.path + ".decay=polynomial");
    all.push_back(fmt::format("{}.decay_start={}", block.path, start));
    all.push_back(
        fmt::format("{}.decay_steps={}", block.path, std::max<int64_t>(1, iterations - start)));
    all.push_back(fmt::format("{}.end_lr={}", block.path, rounded(kLastShare * rate)));
  }
  return all;
}

std::string SearchSpace::text(const Point& point) const {
  std::string text;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    const double first = axis.values.front().second;
    const bool same = std::all_of(axis.values.begin(), axis.values.end(),
                                  [&](const auto& value) { return value.second == first; });
    text += fmt::format("{}{} ", text.empty() ? "" : ", ", axis.name);
    text += axis.replaces || (same && !axis.whole)
                ? fmt::format("{}", changed(axis, point[i], first))
                : fmt::format("x {:.2g}", axis.at(point[i]));
  }
  return text;
}

}  // namespace hlite::trainer
