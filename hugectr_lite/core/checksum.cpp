#include "hugectr_lite/core/checksum.h"

#include <xxhash.h>

#include "hugectr_lite/core/error.h"

namespace hlite {

std::string FileSum::digits() const { return fmt::format("{:016x}", xxh3_64); }

Checksum::Checksum() : state_(XXH3_createState()) {
  HLITE_CHECK(state_ != nullptr, "no memory");
  XXH3_64bits_reset(state_.get());
}

void Checksum::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  bytes_ += static_cast<int64_t>(bytes.size());
}

FileSum Checksum::sum() const { return {bytes_, XXH3_64bits_digest(state_.get())}; }

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

}  // namespace hlite
