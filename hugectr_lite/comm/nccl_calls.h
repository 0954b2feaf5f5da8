// The few calls of NCCL that ranks of several processes need, as the plug-in makes them: it opens
// the library at the first one. Calls of a communicator are for its rank's thread, but for
// nccl_ready and nccl_revoke. Sources: NCCL's user guide, 2.28 to 2.30.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/core/kernel.h"

namespace hlite::kernels {

// Made by one rank and sent to all others.
struct NcclId {
  char bytes[128] = {};
};

// Returns the version as NCCL counts: 23007 is 2.30.7. Throws where there is no library that fits.
inline const Kernel<int()> nccl_version{"nccl_version"};
inline const Kernel<NcclId()> nccl_unique_id{"nccl_unique_id"};
// A communicator on the current device, which is not ready yet: no call to NCCL blocks.
inline const Kernel<void*(const NcclId&, int /*ranks*/, int /*rank*/)> nccl_join{"nccl_join"};
// Returns true if the last call has ended; throws what has gone wrong, on the network too.
inline const Kernel<bool(void* /*comm*/)> nccl_ready{"nccl_ready"};
// Puts all messages on the stream as one group.
inline const Kernel<void(void* /*comm*/, const Message*, int64_t /*count*/)> nccl_exchange{
    "nccl_exchange"};
// words[i] <- the sum over ranks, in an order of NCCL's; the first `pairs` hold two bf16 each.
inline const Kernel<void(void* /*comm*/, float* /*words*/, int64_t /*count*/, int64_t /*pairs*/)>
    nccl_sum{"nccl_sum"};
// Lets the rank's work end at once, whatever it waits for; then only nccl_abort may follow. From
// any thread.
inline const Kernel<void(void* /*comm*/)> nccl_revoke{"nccl_revoke"};
// Ends a communicator that has failed, or one that has not (finalize, nccl_ready, then destroy).
// REQUIRES that no graph holds its work any more.
inline const Kernel<void(void* /*comm*/)> nccl_abort{"nccl_abort"};
inline const Kernel<void(void* /*comm*/)> nccl_finalize{"nccl_finalize"};
inline const Kernel<void(void* /*comm*/)> nccl_destroy{"nccl_destroy"};

}  // namespace hlite::kernels
