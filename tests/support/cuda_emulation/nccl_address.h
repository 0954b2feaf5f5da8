// Addresses at which the emulated NCCL's processes find each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/nccl.h"

namespace hlite::emulation {

struct NcclAddress {
  uint32_t host = 0;  // IPv4, in network order
  uint16_t port = 0;
  [[nodiscard]] std::string text() const;
  auto operator<=>(const NcclAddress&) const = default;
};

struct NcclInterface {
  std::string name;
  uint32_t host = 0;
};

// The interface to listen on, as $NCCL_SOCKET_IFNAME chooses it: names or beginnings of names by
// commas, "=" before them: whole names, "^": all but these. Without a choice (null or empty) it is
// the loopback interface, else the first. Throws EmulationError when there is none.
[[nodiscard]] NcclInterface choose_interface(const std::vector<NcclInterface>& all,
                                             const char* choice);
// Returns the interfaces of this machine that are up and have an IPv4 address.
[[nodiscard]] std::vector<NcclInterface> network_interfaces();

// The content of an ncclUniqueId: where the process that made it listens, and the number of this id
// among its ids.
struct NcclIdentity {
  NcclAddress address;
  uint64_t process = 0;  // drawn by it, so that an old id meets no new process
  int32_t number = 0;
  auto operator<=>(const NcclIdentity&) const = default;
};
[[nodiscard]] ncclUniqueId to_id(const NcclIdentity& identity);
// False for what to_id() has not made.
[[nodiscard]] bool from_id(const ncclUniqueId& id, NcclIdentity& identity);

}  // namespace hlite::emulation
