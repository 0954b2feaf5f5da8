#include "hugectr_lite/comm/nccl_communicator.h"

#include <chrono>
#include <thread>
#include <utility>

#include "hugectr_lite/comm/wait_limit.h"
#include "hugectr_lite/core/error.h"

namespace hlite::comm {
namespace {

constexpr std::chrono::microseconds kEager{200}, kNap{50};

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclCommunicator::NcclCommunicator(Communicator& host, const cuda::Backend& table,
                                   std::function<void()> check_others)
    : table_(table),
      check_others_(std::move(check_others)),
      rank_(host.rank()),
      size_(host.size()) {
  version_ = kernels::nccl_version(exec());  // before any rank waits for one that has none
  ThreadPool pool(1);
  kernels::NcclId id;
  if (rank_ == 0) id = kernels::nccl_unique_id(exec());
  host.broadcast({.pool = &pool}, std::as_writable_bytes(std::span(&id, 1)), 0);
  comm_ = kernels::nccl_join(exec(), id, host.size(), rank_);
  try {
    finish("for NCCL to join all ranks");
  } catch (...) {
    revoke();
    abort();
    throw;
  }
}

// The first error counts, and has been reported.
void NcclCommunicator::abort() noexcept {
  try {
    kernels::nccl_abort(exec(), comm_);
  } catch (const std::exception&) {
  }
}

// A destructor cannot report errors.
NcclCommunicator::~NcclCommunicator() {
  try {
    if (!revoked_) {
      kernels::nccl_finalize(exec(), comm_);
      finish("for the other ranks to part");
      kernels::nccl_destroy(exec(), comm_);
      return;
    }
  } catch (const std::exception&) {
    revoke();
  }
  abort();
}

// Until the call that was made last has ended.
void NcclCommunicator::finish(const char* what) {
  Wait wait;
  while (!kernels::nccl_ready(exec(), comm_)) {
    check_others_();
    wait.check(rank_, what);
    if (wait.so_far() < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

void NcclCommunicator::refuse_revoked() {
  if (!revoked_) return;
  check_others_();
  raise<DeviceError>("rank {}: a call after the end of the ranks' communication", rank_);
}

void NcclCommunicator::exchange(const Exec& exec, std::span<const kernels::NcclMessage> messages) {
  if (messages.empty()) return;
  refuse_revoked();
  kernels::nccl_exchange(exec, comm_, messages.data(), std::ssize(messages));
  finish("for NCCL to take messages");
}

void NcclCommunicator::all_reduce(const Exec& exec, std::span<float> words, size_t pairs) {
  if (words.empty()) return;
  refuse_revoked();
  kernels::nccl_sum(exec, comm_, words.data(), std::ssize(words), static_cast<int64_t>(pairs));
  finish("for NCCL to take a sum");
}

void NcclCommunicator::check() {
  if (!revoked_) (void)kernels::nccl_ready(exec(), comm_);
}

void NcclCommunicator::revoke() noexcept {
  if (revoked_.exchange(true)) return;
  try {
    kernels::nccl_revoke(exec(), comm_);
  } catch (const std::exception&) {  // there is another error already
  }
}

}  // namespace hlite::comm
