#include "hugectr_lite/trainer/estimate/machine.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

// The share of a data sheet's rates that products reach. The share of products is fitted on one
// run, MLPerf 2.0's DLRM on 1 x 8 A100 (tests/bench/estimate_constants.py). Large products reach 70
// %; those of a GPU's part of a batch are a few waves of blocks, the last of them half empty.
constexpr double kProducts = 0.418;
constexpr double kMemory = 0.8;  // random rows of 512 bytes and copies alike
// The time of a step without work, assumed before the fit: 2 us between kernels of a graph, 2 for
// first loads and last blocks, and most steps are two kernels.
constexpr double kGpuStepSeconds = 8e-6;
// Shares of NVLink's rate that direct loads and stores reach, in GB/s; a rail of HDR and NDR.
const MachineLink kNvlink3 = {"nvlink", 235e9, 7e-6}, kNvlink4 = {"nvlink", 360e9, 7e-6},
                  kHdr = {"infiniband", 22e9, 25e-6}, kNdr = {"infiniband", 44e9, 25e-6};
// Loads and stores of single sectors of peers' memory across PCIe: 256 requests of 32 bytes in
// flight; there and back 2 us, and four times that when two GPUs share an uplink, and all the link
// between the sockets. Assumed, and chosen to come within twice of the one published figure.
const MachineLink kPeersOverPcie = {"pcie", 256 * 32 / 8e-6, 16e-6};

struct DataSheet {
  double fp32, tf32, bf16;  // FLOP/s
  double memory, host;      // bytes/s
};
constexpr DataSheet kA100 = {19.5e12, 156e12, 312e12, 2.04e12, 22e9},
                    kH100 = {67e12, 494e12, 989e12, 3.35e12, 45e9},
                    kH200 = {67e12, 494e12, 989e12, 4.8e12, 45e9};

Machine gpu_node(const char* name, const DataSheet& sheet, const MachineLink& in_node,
                 const MachineLink& between, int nics) {
  return {.name = name,
          .gpu = true,
          .flops_fp32 = kProducts * sheet.fp32,
          .flops_tf32 = kProducts * sheet.tf32,
          .flops_16 = kProducts * sheet.bf16,
          .memory_bytes_per_s = kMemory * sheet.memory,
          .host_bytes_per_s = sheet.host,
          .step_seconds = kGpuStepSeconds,
          .in_node = in_node,
          .between = between,
          .nics = nics};
}

int number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

const std::vector<Machine>& known_machines() {
  static const std::vector<Machine> machines = {
      gpu_node("dgx_a100", kA100, kNvlink3, kHdr, 8),
      gpu_node("dgx_h100", kH100, kNvlink4, kNdr, 8),
      gpu_node("h200", kH200, kNvlink4, kNdr, 8),
      gpu_node("a100_pcie", kA100, kPeersOverPcie, kHdr, 1),
  };
  return machines;
}

static void declare(config::Block& s, MachineLink& link) {
  s.text("kind", &link.kind);
  s.number("bytes_per_s", &link.bytes_per_s, {.min = 1}, "", config::kRequired);
  s.number("seconds", &link.seconds, {.min = 0, .max = 1});
}

static void declare(config::Block& s, Machine& m) {
  s.text("name", &m.name);
  s.choice("device", &m.gpu, {{"cpu", false}, {"gpu", true}}, "");
  if (auto flops = s.object("flops", "", config::kRequired)) {
    flops->number("fp32", &m.flops_fp32, {.min = 1}, "", config::kRequired);
    m.flops_tf32 = m.flops_fp32;
    flops->number("tf32", &m.flops_tf32, {.min = 1});
    m.flops_16 = m.flops_tf32;
    flops->number("bf16", &m.flops_16, {.min = 1});
  }
  s.number("memory_bytes_per_s", &m.memory_bytes_per_s, {.min = 1}, "", config::kRequired);
  m.host_bytes_per_s = m.memory_bytes_per_s;
  s.number("host_bytes_per_s", &m.host_bytes_per_s, {.min = 1});
  s.number("disk_read_bytes_per_s", &m.disk_read_bytes_per_s, {.min = 1});
  s.number("disk_written_bytes_per_s", &m.disk_written_bytes_per_s, {.min = 1});
  s.number("step_seconds", &m.step_seconds, {.min = 0, .max = 1});
  if (auto link = s.object("in_node")) declare(*link, m.in_node);
  if (auto link = s.object("between")) {
    declare(*link, m.between);
    link->integer("nics", &m.nics, {.min = 1, .max = 1024});
  }
}

Machine parse_machine(const config::JsonNode& node) { return config::read_block<Machine>(node); }

ExchangeSeconds exchange_seconds(const Machine& machine, const ExchangeWork& work) {
  const auto over = [&](const MachineLink& link, double bytes, double share) {
    return work.turns * link.seconds + bytes / (share * link.bytes_per_s);
  };
  ExchangeSeconds seconds;
  if (work.ranks_of_node > 1) seconds.in_node = over(machine.in_node, work.in_node, 1);
  if (work.nodes > 1)
    seconds.between = over(machine.between, work.between,
                           std::min(1.0, static_cast<double>(machine.nics) / work.ranks_of_node));
  return seconds;
}

System parse_system(const std::string& text) {
  System system;
  std::string name = text;
  if (const size_t blank = text.find(' '); blank != std::string::npos) {
    name = text.substr(blank + 1);
    const std::string_view shape = std::string_view(text).substr(0, blank);
    const size_t x = std::min(shape.find('x'), shape.size());
    system.nodes = number_of(shape.substr(0, x));
    system.ranks_of_node = x < shape.size() ? number_of(shape.substr(x + 1)) : 0;
    if (system.nodes < 1 || system.ranks_of_node < 1 || system.nodes > 4096 ||
        system.ranks_of_node > 1024)
      raise<ConfigError>(
          "--estimate: expected nodes x ranks before the machine, such as \"2x8 dgx_a100\", found "
          "\"{}\"",
          shape);
  }
  std::vector<std::string> names;
  for (const Machine& m : known_machines()) {
    names.push_back(m.name);
    if (m.name == name) {
      system.machine = m;
      return system;
    }
  }
  if (!std::filesystem::exists(name))
    raise<ConfigError>("--estimate: expected one of {} or a machine's JSON file, found \"{}\"",
                       fmt::join(names, ", "), name);
  system.machine = parse_machine(config::JsonNode::parse_file(name));
  return system;
}

}  // namespace hlite::trainer
