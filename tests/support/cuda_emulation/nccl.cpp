#include "tests/support/cuda_emulation/nccl.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tests/support/cuda_emulation/nccl_work.h"
#include "tests/support/cuda_emulation/runtime_state.h"
#include "tests/support/cuda_emulation/stream_state.h"

namespace hlite::emulation {
namespace {

thread_local std::string thread_error;

ncclResult_t refuse(ncclResult_t result, std::string why, NcclMember* member = nullptr) {
  if (member) member->last_error = why;
  thread_error = std::move(why);
  return result;
}

// ---- Groups ----

struct Pending {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<NcclCall> calls;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending> pending;

}  // namespace

NcclMachine& nccl_machine() {
  static NcclMachine machine = [] {
    NcclMachine m;
    if (const char* fault = std::getenv("HLITE_EMULATED_NCCL_FAULT")) m.fault = fault;
    if (const char* version = std::getenv("HLITE_EMULATED_NCCL_VERSION"))
      m.version = std::atoi(version);
    const char* const installed = std::getenv("HLITE_EMULATED_NCCL");
    m.installed = !installed || installed != std::string_view("0");
    return m;
  }();
  return machine;
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

struct EmulatedNcclComm {
  std::shared_ptr<NcclMember> member;
};

ncclResult_t ncclGetVersion(int* version) {
  *version = nccl_machine().version;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto held = StreamQueues::lock();
  try {
    *id = NcclWorld::make_id();
  } catch (const EmulationError& error) {
    return refuse(ncclSystemError, error.what());
  }
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "in progress"};
  return kTexts[static_cast<size_t>(result)];
}
const char* ncclGetLastError(ncclComm_t comm) {
  return comm ? comm->member->last_error.c_str() : thread_error.c_str();
}

// The state of a rank's request to join.
static ncclResult_t state_of(NcclMember& member) {
  if (std::string why = member.world->refusal(member.rank); !why.empty())
    return refuse(ncclInvalidUsage, std::move(why), &member);
  if (member.ended) return ncclSuccess;
  const ncclResult_t state = member.world->state();
  if (state == ncclRemoteError) return refuse(state, member.world->loss, &member);
  const bool works = member.finalized && member.waiting.use_count() > 1;
  return state == ncclSuccess && works ? ncclInProgress : state;
}

// Until all ranks have joined, or one has been refused.
static ncclResult_t wait_for_ranks(std::unique_lock<std::recursive_mutex>& held,
                                   NcclMember& member) {
  NcclWorld& world = *member.world;
  world.changed.wait_for(held, std::chrono::milliseconds(nccl_machine().init_ms),
                         [&] { return state_of(member) != ncclInProgress; });
  const ncclResult_t state = state_of(member);
  if (state != ncclInProgress) return state;
  return refuse(ncclSystemError, fmt::format("rank {} of {}: {} ranks have joined", member.rank,
                                             world.rendezvous.ranks(), world.joined()));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    const ncclConfig_t* config) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}", rank, ranks));
  if (config && (config->magic != kNcclConfigMagic || config->size < sizeof(ncclConfig_t)))
    return refuse(ncclInvalidArgument, "the config was not initialised");
  queues::register_thread();  // before the other ranks go on to work that waits for this one's
  auto held = StreamQueues::lock();
  const auto member = std::make_shared<NcclMember>();
  member->rank = rank;
  member->device = current_device();
  try {
    member->world = NcclWorld::of(id, ranks);
    if (std::string why = member->world->join(rank, ranks, member->device); !why.empty())
      return refuse(ncclInvalidUsage, std::move(why));
  } catch (const EmulationError& error) {
    return refuse(ncclInvalidArgument, error.what());
  }
  *comm = new EmulatedNcclComm{member};
  if (config && config->blocking == 0) return ncclInProgress;
  const ncclResult_t result = wait_for_ranks(held, *member);
  if (result != ncclSuccess) delete std::exchange(*comm, nullptr);
  return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const auto held = StreamQueues::lock();
  *error = state_of(*comm->member);
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (!comm || flags != 0) return refuse(ncclInvalidArgument, "revoke: no communicator, or flags");
  const auto held = StreamQueues::lock();
  comm->member->ended = true;
  StreamQueues::wake();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto held = StreamQueues::lock();
  comm->member->finalized = true;
  return state_of(*comm->member);
}

static ncclResult_t leave(ncclComm_t comm, bool abort) {
  const auto held = StreamQueues::lock();
  NcclMember& member = *comm->member;
  if (member.graphs.use_count() > 1)
    return refuse(
        ncclInvalidUsage,
        fmt::format("{} pieces of captured work hold communicator {} of rank {}",
                    member.graphs.use_count() - 1, member.world->rendezvous.number(), member.rank),
        &member);
  member.ended |= abort;
  member.world->leave(member.rank, abort);
  StreamQueues::wake();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return leave(comm, true); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return leave(comm, false); }
ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks) {
  *ranks = comm->member->world->rendezvous.ranks();
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->member->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "a group ends that has not begun");
  if (--group_depth > 0) return ncclSuccess;
  for (Pending& group : std::exchange(pending, {})) {
    const std::shared_ptr<NcclMember>& member = group.comm->member;
    const bool captured = group.calls.front().captured;
    const auto work = std::make_shared<NcclWork>(member, std::move(group.calls),
                                                 captured ? member->graphs : member->waiting);
    submit(
        group.stream, [work] { work->run(); }, "NCCL");
  }
  return ncclSuccess;
}

// Adds a call to the group, or makes one of its own.
static ncclResult_t add_call(NcclCall call, ncclComm_t comm, cudaStream_t stream) {
  if (!comm) return refuse(ncclInvalidArgument, "no communicator");
  NcclMember& member = *comm->member;
  {
    const auto held = StreamQueues::lock();
    if (!member.world->complete() || member.ended || member.finalized)
      return refuse(ncclInvalidUsage,
                    member.ended       ? "the communicator was revoked"
                    : member.finalized ? "the communicator was finalized"
                                       : "the communicator is not ready",
                    &member);
  }
  const int ranks = member.world->rendezvous.ranks();
  if (call.peer < 0 || call.peer >= ranks)
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}", call.peer, ranks), &member);
  if (device_of(stream) != member.device)
    return refuse(ncclInvalidArgument,
                  fmt::format("rank {} is on device {}, its stream on device {}", member.rank,
                              member.device, device_of(stream)),
                  &member);
  cudaStreamCaptureStatus status;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) return ncclUnhandledCudaError;
  call.captured = status == cudaStreamCaptureStatusActive;
  ncclGroupStart();
  Pending* group = nullptr;
  for (Pending& other : pending)
    if (other.comm == comm) group = &other;
  if (group && group->stream != stream) {
    --group_depth;
    return refuse(ncclInvalidUsage, "a group with two streams of one communicator", &member);
  }
  if (!group) group = &pending.emplace_back(Pending{comm, stream, {}});
  group->calls.push_back(call);
  return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add_call({NcclKind::kAllReduce, send, receive, count, type, op}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add_call({NcclKind::kReduceScatter, send, receive, receive_count, type, op}, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add_call({NcclKind::kAllGather, send, receive, send_count, type}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add_call({NcclKind::kBroadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return add_call({NcclKind::kAlltoAll, send, receive, count, type}, comm, stream);
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_call({NcclKind::kSend, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_call({NcclKind::kRecv, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}
