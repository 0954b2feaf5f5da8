// Stands in for NCCL's header of this name: ranks are threads of one process or of several, each
// with the emulated device that is current when it joins. It checks what the real library leaves to
// luck:
// What is wrong is an EmulationError of the work, or ncclInvalidArgument and ncclInvalidUsage with
// ncclGetLastError() where a call shows it. Work waits on its stream until all ranks have come; for
// other processes as long as elsewhere_ms() says.
//
// An id holds the address of the process that made it: of the loopback interface, or of the one
// that $NCCL_SOCKET_IFNAME names. What ranks of other processes see of one that aborts, or whose
// process ends, is ncclRemoteError by ncclCommGetAsyncError(); work that waits for it ends after
// ncclCommAbort() or ncclCommRevoke().
//
// $HLITE_EMULATED_NCCL_FAULT, or nccl_machine().fault, plants a fault: "error:RANK:N" breaks that
// rank's Nth piece of work (the first is 1) of a communicator, which shows by
// ncclCommGetAsyncError() on all ranks; "silent:RANK:N": the rank never comes to it.
#pragma once

#include <cstddef>
#include <string>

#include "tests/support/cuda_emulation/cuda_runtime.h"

inline constexpr int NCCL_VERSION_CODE = 23007;
inline constexpr size_t NCCL_UNIQUE_ID_BYTES = 128;
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
using ncclComm_t = struct EmulatedNcclComm*;

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2, ncclMin = 3 };
// The front of the real one, which takes defaults for what `size` leaves out.
struct ncclConfig_t {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
inline constexpr unsigned kNcclConfigMagic = 0xcafebeef;
#define NCCL_CONFIG_INITIALIZER \
  { sizeof(ncclConfig_t), kNcclConfigMagic, NCCL_VERSION_CODE, 1 }

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);

// Blocking: returns when all ranks have called it. Else ncclInProgress, until
// ncclCommGetAsyncError() says something else.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    const ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
// Lets all work of the rank end at once, and refuses any more, also while a graph holds some.
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
// No more calls will come. ncclInProgress, also by ncclCommGetAsyncError(), while work is left.
ncclResult_t ncclCommFinalize(ncclComm_t comm);
// Lets all work of the rank end at once. Like ncclCommDestroy(): ncclInvalidUsage while a graph
// holds work of the communicator, where the real one would wait for ever.
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

namespace hlite::emulation {
struct NcclMachine {
  std::string fault;                // the environment's variable, before any test changes it
  int init_ms = 600000;             // so long a blocking initialisation waits for other ranks
  bool several_ranks_a_gpu = true;  // NCCL_MULTI_RANK_GPU_ENABLE
  bool installed = true;            // $HLITE_EMULATED_NCCL=0: the loader does not find it
  std::string missing_function;     // that the loader does not find in it
  int version = NCCL_VERSION_CODE;  // $HLITE_EMULATED_NCCL_VERSION
};
NcclMachine& nccl_machine();
}  // namespace hlite::emulation
