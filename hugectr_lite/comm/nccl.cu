// NCCL, opened at run time: nothing of it is linked, and a run of one process never looks for it.
// The few types are declared here, as nccl.h has them, so that building needs no NCCL either.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "hugectr_lite/comm/nccl_calls.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::gpu {
namespace {

using kernels::Message;
using kernels::NcclId;

constexpr int kOldest = 22809;                    // 2.28.9
constexpr int kSuccess = 0, kInProgress = 7;      // ncclResult_t
constexpr int kUint8 = 1, kFloat = 7, kBf16 = 9;  // ncclDataType_t
constexpr int kSum = 0;                           // ncclRedOp_t

// The front of ncclConfig_t, as 2.14 had it: a later library takes defaults for what is not there.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct Library {
  std::string file;
  int version = 0;
  int (*get_version)(int*);
  int (*get_unique_id)(NcclId*);
  const char* (*error_string)(int);
  const char* (*last_error)(void*);
  int (*init)(void**, int, NcclId, int, const Config*);
  int (*async_error)(void*, int*);
  int (*revoke)(void*, int);  // null: this library has none
  int (*abort)(void*);
  int (*finalize)(void*);
  int (*destroy)(void*);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, size_t, int, int, void*, cudaStream_t);
  int (*receive)(void*, size_t, int, int, void*, cudaStream_t);
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, cudaStream_t);
};

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "the loader gives no reason";
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

template <typename Pointer>
void find(void* library, const Library& nccl, const char* name, Pointer* function) {
  *function = reinterpret_cast<Pointer>(dlsym(library, name));
  if (!*function)
    throw CudaError(nccl.file + ", NCCL " + version_text(nccl.version) + ", has no " + name + ": " +
                    loader_error() + "; expected NCCL " + version_text(kOldest) + " or later");
}

// All symbols at once: one that is missing must not show in the middle of a run.
Library load_nccl() {
  const char* const named = std::getenv("HLITE_NCCL_LIBRARY");
  Library nccl{};
  nccl.file = named && *named ? named : "libnccl.so.2";
  void* const library = dlopen(nccl.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw CudaError("cannot load NCCL, which joins GPUs of several processes: looked for " +
                    nccl.file +
                    (named && *named ? " (HLITE_NCCL_LIBRARY)"
                                     : " on the loader's path (LD_LIBRARY_PATH, "
                                       "ldconfig); HLITE_NCCL_LIBRARY names another, and pip "
                                       "install 'hugectr_lite[cuda]' brings one") +
                    "; " + loader_error());
  find(library, nccl, "ncclGetVersion", &nccl.get_version);
  if (nccl.get_version(&nccl.version) != kSuccess || nccl.version < kOldest)
    throw CudaError(nccl.file + " is NCCL " + version_text(nccl.version) + ", expected " +
                    version_text(kOldest) +
                    " or later (where the process has opened another libnccl before, that one "
                    "counts)");
  find(library, nccl, "ncclGetUniqueId", &nccl.get_unique_id);
  find(library, nccl, "ncclGetErrorString", &nccl.error_string);
  find(library, nccl, "ncclGetLastError", &nccl.last_error);
  find(library, nccl, "ncclCommInitRankConfig", &nccl.init);
  find(library, nccl, "ncclCommGetAsyncError", &nccl.async_error);
  nccl.revoke = reinterpret_cast<int (*)(void*, int)>(dlsym(library, "ncclCommRevoke"));
  find(library, nccl, "ncclCommAbort", &nccl.abort);
  find(library, nccl, "ncclCommFinalize", &nccl.finalize);
  find(library, nccl, "ncclCommDestroy", &nccl.destroy);
  find(library, nccl, "ncclGroupStart", &nccl.group_start);
  find(library, nccl, "ncclGroupEnd", &nccl.group_end);
  find(library, nccl, "ncclSend", &nccl.send);
  find(library, nccl, "ncclRecv", &nccl.receive);
  find(library, nccl, "ncclAllReduce", &nccl.all_reduce);
  return nccl;
}

// A rank of a communicator, as programs hold it.
struct Joined {
  Library nccl;
  void* comm = nullptr;
};

Joined& joined(void* handle) { return *static_cast<Joined*>(handle); }

bool good(int result) { return result == kSuccess || result == kInProgress; }

void check(const Library& nccl, int result, const char* call, void* comm = nullptr) {
  if (good(result)) return;
  const char* const why = nccl.last_error(comm);
  throw CudaError(std::string("NCCL: ") + call + ": " + nccl.error_string(result) +
                  (why && *why ? std::string("; ") + why : std::string()));
}
void check(const Joined& of, int result, const char* call) {
  check(of.nccl, result, call, of.comm);
}

// The calls of `body` as one piece of work. A group that has begun has to end.
template <typename Body>
void in_group(const Joined& of, const char* call, Body&& body) {
  check(of, of.nccl.group_start(), "ncclGroupStart");
  const int result = body();
  const int ended = of.nccl.group_end();
  check(of, result, call);
  check(of, ended, call);
}

}  // namespace

int nccl_version() { return load_nccl().version; }

NcclId nccl_unique_id() {
  const Library nccl = load_nccl();
  NcclId id;
  check(nccl, nccl.get_unique_id(&id), "ncclGetUniqueId");
  return id;
}

void* nccl_join(const NcclId& id, int ranks, int rank) {
  auto made = std::make_unique<Joined>(Joined{load_nccl(), nullptr});
  const Config config{};
  check(made->nccl, made->nccl.init(&made->comm, ranks, id, rank, &config),
        "ncclCommInitRankConfig");
  return made.release();
}

bool nccl_ready(void* handle) {
  const Joined& of = joined(handle);
  int state = kSuccess;
  check(of, of.nccl.async_error(of.comm, &state), "ncclCommGetAsyncError");
  check(of, state, "work between ranks");
  return state != kInProgress;
}

void nccl_exchange(cudaStream_t stream, void* handle, const Message* messages, int64_t count) {
  const Joined& of = joined(handle);
  in_group(of, "a group of messages", [&] {
    int result = kSuccess;
    for (int64_t i = 0; i < count && good(result); ++i) {
      const Message& m = messages[i];
      const auto bytes = static_cast<size_t>(m.bytes);
      result = m.send ? of.nccl.send(m.send, bytes, kUint8, m.peer, of.comm, stream)
                      : of.nccl.receive(m.receive, bytes, kUint8, m.peer, of.comm, stream);
    }
    return result;
  });
}

void nccl_sum(cudaStream_t stream, void* handle, float* words, int64_t count, int64_t pairs) {
  const Joined& of = joined(handle);
  in_group(of, "ncclAllReduce", [&] {
    int result = kSuccess;
    const auto sum = [&](float* at, int64_t n, int type) {
      if (n > 0 && good(result))
        result = of.nccl.all_reduce(at, at, static_cast<size_t>(n), type, kSum, of.comm, stream);
    };
    sum(words, 2 * pairs, kBf16);
    sum(words + pairs, count - pairs, kFloat);
    return result;
  });
}

void nccl_revoke(void* handle) {
  Joined& of = joined(handle);
  if (of.nccl.revoke) return check(of, of.nccl.revoke(of.comm, 0), "ncclCommRevoke");
  check(of.nccl, of.nccl.abort(std::exchange(of.comm, nullptr)), "ncclCommAbort");
}

void nccl_abort(void* handle) {
  const std::unique_ptr<Joined> of(&joined(handle));
  if (of->comm) check(of->nccl, of->nccl.abort(of->comm), "ncclCommAbort");
}

void nccl_finalize(void* handle) {
  const Joined& of = joined(handle);
  check(of, of.nccl.finalize(of.comm), "ncclCommFinalize");
}

void nccl_destroy(void* handle) {
  const std::unique_ptr<Joined> of(&joined(handle));
  check(of->nccl, of->nccl.destroy(of->comm), "ncclCommDestroy");
}

HLITE_KERNELS(nccl) {
  list.add<nccl_version>(kernels::nccl_version);
  list.add<nccl_unique_id>(kernels::nccl_unique_id);
  list.add<nccl_join>(kernels::nccl_join);
  list.add<nccl_ready>(kernels::nccl_ready);
  list.add<nccl_exchange>(kernels::nccl_exchange);
  list.add<nccl_sum>(kernels::nccl_sum);
  list.add<nccl_revoke>(kernels::nccl_revoke);
  list.add<nccl_abort>(kernels::nccl_abort);
  list.add<nccl_finalize>(kernels::nccl_finalize);
  list.add<nccl_destroy>(kernels::nccl_destroy);
}

}  // namespace hlite::gpu
