#include "tests/bench/measured_machine.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"

namespace hlite::bench {
namespace {

struct Rates {
  double flops = 0, bytes = 0;  // a second
};

// What the steps reach that products bound at the rates `before`, and what the others do.
Rates reached(std::span<const MeasuredStep> steps, double idle, const Rates& before) {
  Rates work, seconds;
  for (const MeasuredStep& s : steps) {
    const double spent = std::max(s.seconds - idle, 0.0);
    const bool products = s.work.flops * before.bytes > s.work.bytes * before.flops;
    (products ? work.flops : work.bytes) += products ? s.work.flops : s.work.bytes;
    (products ? seconds.flops : seconds.bytes) += spent;
  }
  if (work.flops <= 0 || work.bytes <= 0 || seconds.flops <= 0 || seconds.bytes <= 0)
    raise<ConfigError>(
        "a machine's rates: expected steps that products bound and steps that memory bounds, found "
        "{} steps with {:.3g} FLOPs in {:.3g} s and {:.3g} bytes in {:.3g} s",
        steps.size(), work.flops, seconds.flops, work.bytes, seconds.bytes);
  return {work.flops / seconds.flops, work.bytes / seconds.bytes};
}

}  // namespace

Machine measured_machine(std::string name, std::span<const MeasuredStep> steps) {
  double idle = steps.empty() ? 0 : steps[0].seconds;
  for (const MeasuredStep& s : steps) idle = std::min(idle, s.seconds);
  // At first whatever multiplies counts as a product; which of them do not is seen by the rates.
  Rates rates{.flops = 1, .bytes = 1e30};
  for (int turn = 0; turn < 10; ++turn) rates = reached(steps, idle, rates);
  return {.name = std::move(name),
          .flops_fp32 = rates.flops,
          .flops_tf32 = rates.flops,
          .flops_16 = rates.flops,
          .memory_bytes_per_s = rates.bytes,
          .host_bytes_per_s = rates.bytes,
          .step_seconds = idle,
          .in_node = {},
          .between = {}};
}

MachineLink measured_link(std::string kind, std::span<const MeasuredExchange> exchanges) {
  // Of unknowns latency and seconds a byte: normal equations of rows (turns, bytes) / seconds.
  double tt = 0, tb = 0, bb = 0, t = 0, b = 0;
  for (const MeasuredExchange& e : exchanges) {
    const double turns = e.turns / e.seconds, bytes = e.bytes / e.seconds;
    tt += turns * turns;
    tb += turns * bytes;
    bb += bytes * bytes;
    t += turns;
    b += bytes;
  }
  const double determinant = tt * bb - tb * tb;
  double latency = determinant > 0 ? (t * bb - b * tb) / determinant : 0;
  double byte_seconds = determinant > 0 ? (b * tt - t * tb) / determinant : 0;
  if (latency < 0) {
    latency = 0;
    byte_seconds = b / bb;
  }
  if (!(byte_seconds > 0))
    raise<ConfigError>(
        "a link's rate: expected exchanges that take longer the more they send, found {} with no "
        "such rate",
        exchanges.size());
  return {.kind = std::move(kind), .bytes_per_s = 1 / byte_seconds, .seconds = latency};
}

std::string json_of(const Machine& m) {
  nlohmann::ordered_json json = {
      {"name", m.name},
      {"device", m.gpu ? "gpu" : "cpu"},
      {"flops", {{"fp32", m.flops_fp32}, {"tf32", m.flops_tf32}, {"bf16", m.flops_16}}},
      {"memory_bytes_per_s", m.memory_bytes_per_s},
      {"host_bytes_per_s", m.host_bytes_per_s},
      {"step_seconds", m.step_seconds}};
  const auto link = [](const MachineLink& l) {
    return nlohmann::ordered_json{
        {"kind", l.kind}, {"bytes_per_s", l.bytes_per_s}, {"seconds", l.seconds}};
  };
  if (m.in_node.bytes_per_s > 0) json["in_node"] = link(m.in_node);
  if (m.between.bytes_per_s > 0) {
    json["between"] = link(m.between);
    json["between"]["nics"] = m.nics;
  }
  return json.dump(2);
}

}  // namespace hlite::bench
