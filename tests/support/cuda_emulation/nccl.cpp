#include "tests/support/cuda_emulation/nccl.h"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tests/support/cuda_emulation/nccl_meeting.h"
#include "tests/support/cuda_emulation/runtime_state.h"

namespace hlite::emulation {
namespace {

// What all ranks of a communicator share. As all here: for whoever holds StreamQueues::lock().
struct World {
  NcclMeeting meeting;
  std::map<int, int> devices;  // of each rank that has joined
  ncclResult_t error = ncclSuccess;
  std::string failure;  // ranks that disagree fail all
  [[nodiscard]] bool complete() const {
    return static_cast<int>(devices.size()) == meeting.ranks();
  }
};

struct Member {
  std::shared_ptr<World> world;
  int rank = 0, device = 0;
  bool aborted = false;
  std::shared_ptr<int> graphs = std::make_shared<int>();  // who holds it: captured work
  std::string last_error;
};

struct Joining {
  std::condition_variable_any changed;
  std::shared_ptr<World> world;
};

std::map<int, Joining> joinings;  // by the id's number
int ids = 0;
// The communicator whose work is on a device, and how many of its ranks have some there.
std::map<int, std::pair<const World*, int>> in_flight;
thread_local std::string thread_error;

ncclResult_t refuse(ncclResult_t result, std::string why, Member* member = nullptr) {
  if (member) member->last_error = why;
  thread_error = std::move(why);
  return result;
}

// One piece of work on a stream: the calls of a group. It begins anew at each launch of a graph.
class NcclWork {
 public:
  NcclWork(std::shared_ptr<Member> member, std::vector<NcclCall> calls, std::shared_ptr<int> graph)
      : member_(std::move(member)), calls_(std::move(calls)), graph_(std::move(graph)) {}
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;
  ~NcclWork() { end(); }  // it may have been dropped where nothing could go on

  void run() {
    World& world = *member_->world;
    if (member_->aborted) return end();
    if (!world.failure.empty()) {
      end();
      throw EmulationError(world.failure);
    }
    try {
      if (!run_) begin(world);
    } catch (const EmulationError& error) {
      world.failure = error.what();
      end();
      throw;
    }
    if (planted_) throw NotYet{fmt::format("rank {}: a planted fault", member_->rank)};
    std::string missing;
    if (!world.meeting.done(member_->rank, *run_, missing)) throw NotYet{missing};
    end();
  }

 private:
  void begin(World& world) {
    run_ = NcclRun{calls_, {}};
    auto& [other, count] = in_flight[member_->device];
    if (count > 0 && other != &world)
      throw EmulationError(
          fmt::format("communicators {} and {} have work on device {} at the same time",
                      other->meeting.number(), world.meeting.number(), member_->device));
    other = &world;
    ++count;
    counted_ = true;
    const std::string place =
        fmt::format(":{}:{}", member_->rank, world.meeting.next_run(member_->rank));
    planted_ = nccl_machine().fault == "error" + place || nccl_machine().fault == "silent" + place;
    if (nccl_machine().fault == "error" + place) world.error = ncclSystemError;
    if (!planted_) world.meeting.come(member_->rank, *run_);
  }
  void end() {
    run_.reset();
    if (std::exchange(counted_, false)) --in_flight[member_->device].second;
  }

  const std::shared_ptr<Member> member_;
  const std::vector<NcclCall> calls_;
  const std::shared_ptr<int> graph_;
  std::optional<NcclRun> run_;
  bool planted_ = false, counted_ = false;
};

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
    return m;
  }();
  return machine;
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

struct EmulatedNcclComm {
  std::shared_ptr<Member> member;
};

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto held = StreamQueues::lock();
  std::memset(id, 0, sizeof(*id));
  const int number = ++ids;
  std::memcpy(id->internal, &number, sizeof(number));
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

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    const ncclConfig_t* config) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}", rank, ranks));
  int number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  auto held = StreamQueues::lock();
  Joining& joining = joinings[number];
  if (!joining.world) joining.world.reset(new World{NcclMeeting(ranks, number), {}, {}, {}});
  const std::shared_ptr<World> world = joining.world;
  if (world->meeting.ranks() != ranks)
    return refuse(ncclInvalidUsage, fmt::format("rank {} expects {} ranks, others expect {}", rank,
                                                ranks, world->meeting.ranks()));
  for (const auto& [other, device] : world->devices)
    if (device == current_device() && !nccl_machine().several_ranks_a_gpu)
      return refuse(ncclInvalidUsage,
                    fmt::format("ranks {} and {} are both on device {}", other, rank, device));
  if (!world->devices.emplace(rank, current_device()).second)
    return refuse(ncclInvalidUsage, fmt::format("rank {} joins twice", rank));
  joining.changed.notify_all();
  *comm = new EmulatedNcclComm{std::make_shared<Member>()};
  (*comm)->member->world = world;
  (*comm)->member->rank = rank;
  (*comm)->member->device = current_device();
  if (config && config->blocking == 0) return ncclInProgress;
  if (joining.changed.wait_for(held, std::chrono::milliseconds(nccl_machine().init_ms),
                               [&] { return world->complete(); }))
    return ncclSuccess;
  delete std::exchange(*comm, nullptr);
  return refuse(ncclSystemError, fmt::format("rank {} of {}: {} ranks have joined", rank, ranks,
                                             world->devices.size()));
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const auto held = StreamQueues::lock();
  const World& world = *comm->member->world;
  *error = !world.complete()       ? ncclInProgress
           : world.failure.empty() ? world.error
                                   : ncclInvalidUsage;
  return ncclSuccess;
}

static ncclResult_t leave(ncclComm_t comm, bool abort) {
  const auto held = StreamQueues::lock();
  Member& member = *comm->member;
  if (member.graphs.use_count() > 1)
    return refuse(
        ncclInvalidUsage,
        fmt::format("{} pieces of captured work hold communicator {} of rank {}",
                    member.graphs.use_count() - 1, member.world->meeting.number(), member.rank),
        &member);
  member.aborted = abort;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return leave(comm, true); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return leave(comm, false); }
ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks) {
  *ranks = comm->member->world->meeting.ranks();
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
    const std::shared_ptr<Member>& member = group.comm->member;
    const bool captured = !group.calls.empty() && group.calls.front().captured;
    const auto work = std::make_shared<NcclWork>(member, std::move(group.calls),
                                                 captured ? member->graphs : nullptr);
    submit(
        group.stream, [work] { work->run(); }, "NCCL");
  }
  return ncclSuccess;
}

// Adds a call to the group, or makes one of its own.
static ncclResult_t add_call(NcclCall call, ncclComm_t comm, cudaStream_t stream) {
  if (!comm) return refuse(ncclInvalidArgument, "no communicator");
  Member& member = *comm->member;
  {
    const auto held = StreamQueues::lock();
    if (!member.world->complete())
      return refuse(ncclInvalidUsage, "the communicator is not ready", &member);
  }
  const int ranks = member.world->meeting.ranks();
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
