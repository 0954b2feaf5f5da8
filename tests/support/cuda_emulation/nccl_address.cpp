#include "tests/support/cuda_emulation/nccl_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace hlite::emulation {
namespace {

constexpr char kMagic[8] = "HLITENC";

bool is_loopback(const NcclInterface& interface) { return ntohl(interface.host) >> 24 == 127; }

}  // namespace

std::string NcclAddress::text() const {
  char name[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &host, name, sizeof(name));
  return fmt::format("{}:{}", name, port);
}

NcclInterface choose_interface(const std::vector<NcclInterface>& all, const char* choice) {
  std::string names = choice ? choice : "";
  const bool without = names.starts_with('^');
  if (without) names.erase(0, 1);
  const bool whole = names.starts_with('=');
  if (whole) names.erase(0, 1);
  std::vector<std::string> list;
  std::istringstream parts(names);
  for (std::string part; std::getline(parts, part, ',');)
    if (!part.empty()) list.push_back(part);
  const auto named = [&](const NcclInterface& interface) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& name) {
      return whole ? interface.name == name : interface.name.starts_with(name);
    });
  };
  std::vector<NcclInterface> fit;
  for (const NcclInterface& interface : all)
    if (list.empty() || named(interface) != without) fit.push_back(interface);
  if (fit.empty()) {
    std::string found;
    for (const NcclInterface& interface : all) found += " " + interface.name;
    throw EmulationError(fmt::format("NCCL_SOCKET_IFNAME is \"{}\", but the interfaces are:{}",
                                     choice ? choice : "", found.empty() ? " none" : found));
  }
  const auto loopback = std::find_if(fit.begin(), fit.end(), is_loopback);
  return loopback != fit.end() ? *loopback : fit.front();
}

std::vector<NcclInterface> network_interfaces() {
  std::vector<NcclInterface> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || !(at->ifa_flags & IFF_UP)) continue;
    sockaddr_in address{};
    std::memcpy(&address, at->ifa_addr, sizeof(address));
    all.push_back({at->ifa_name, address.sin_addr.s_addr});
  }
  freeifaddrs(list);
  return all;
}

ncclUniqueId to_id(const NcclIdentity& identity) {
  ncclUniqueId id{};
  std::memcpy(id.internal, kMagic, sizeof(kMagic));
  std::memcpy(id.internal + sizeof(kMagic), &identity, sizeof(identity));
  return id;
}

bool from_id(const ncclUniqueId& id, NcclIdentity& identity) {
  if (std::memcmp(id.internal, kMagic, sizeof(kMagic)) != 0) return false;
  std::memcpy(&identity, id.internal + sizeof(kMagic), sizeof(identity));
  return true;
}

}  // namespace hlite::emulation
