// The rates of a machine, as far as an iteration's time depends on them.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/config/json_node.h"

namespace hlite::trainer {

// Between ranks: of one rank and direction.
struct MachineLink {
  std::string kind = {};  // "nvlink", "pcie", "memory"; said to people, and pcie is warned of
  double bytes_per_s = 0;
  double seconds = 0;  // latency of a message
};

// Rates are those that a program reaches, not a data sheet's; of one rank.
struct Machine {
  std::string name = "a machine of one's own";
  bool gpu = false;
  double flops_fp32 = 0, flops_tf32 = 0, flops_16 = 0;  // of large matrix products, a second
  double memory_bytes_per_s = 0;                        // read and written
  double host_bytes_per_s = 0;                          // from host memory to a GPU's
  // A disk: random reads of 4 KiB, many at a time, and writes of 1 MiB. By default those of a
  // virtual disk of a data center.
  double disk_read_bytes_per_s = 350e6, disk_written_bytes_per_s = 800e6;
  double step_seconds = 0;  // what a step takes without work: launch, fill and drain
  MachineLink in_node;
  MachineLink between;  // of one network adapter
  int nics = 1;         // adapters of a node, which its ranks share
};

// An exchange of ranks, `ranks_of_node` of them on each of several nodes or of one: bytes that a
// rank sends within its node and between nodes, and how often they go to and fro.
struct ExchangeWork {
  int nodes = 1, ranks_of_node = 1;
  double in_node = 0, between = 0;
  int turns = 1;
};
// The time of an exchange on the machine's links, which must be there where ranks need them.
struct ExchangeSeconds {
  double in_node = 0, between = 0;
};
ExchangeSeconds exchange_seconds(const Machine& machine, const ExchangeWork& work);

// "2x8 dgx_a100" (nodes x ranks), "dgx_a100" or "machine.json": a machine of the table below or of
// a file, and the topology, or the config's where none is named.
struct System {
  Machine machine;
  int nodes = 0, ranks_of_node = 0;  // 0: as the config says
};
// Throws ConfigError with what was expected; of a file with line and path.
System parse_system(const std::string& text);

// {"name":"..","device":"gpu"|"cpu","flops":{"fp32":..,"tf32":..,"bf16":..},"memory_bytes_per_s":..,
//  "host_bytes_per_s":..,"disk_read_bytes_per_s":..,"disk_written_bytes_per_s":..,
//  "step_seconds":..,
//  "in_node":{"kind":"nvlink","bytes_per_s":..,"seconds":..},
//  "between":{"bytes_per_s":..,"seconds":..,"nics":8}}
// "flops" may leave out all but fp32; links may be left out where ranks have none.
Machine parse_machine(const config::JsonNode& node);

// Machines known by name.
const std::vector<Machine>& known_machines();

}  // namespace hlite::trainer
