// NCCL as a transport: one communicator a GPU, because two with work on a GPU at the same time may
// keep each other from running. It is non-blocking here: a call is polled until it ends, up to a
// limit, so a waiting rank learns of other ranks' failures.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "hugectr_lite/comm/device_ranks.h"
#include "hugectr_lite/comm/nccl_calls.h"
#include "hugectr_lite/comm/wait_limit.h"

namespace hlite::comm {
namespace {

constexpr std::chrono::microseconds kEager{200}, kNap{50};
// The first NCCL whose calls between nodes may stand in a graph: with earlier ones such graphs hang
// now and then.
constexpr int kNcclForGraphs = 23007;

// "2.30.7".
std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(Communicator& host, const cuda::Backend& table, std::function<void()> check_others);
  ~NcclTransport() override;

  [[nodiscard]] std::string name() const override { return "NCCL " + nccl_version_text(version_); }
  [[nodiscard]] std::string graphs_want() const override {
    return version_ < kNcclForGraphs ? nccl_version_text(kNcclForGraphs) : "";
  }
  void exchange(const Exec& exec, std::span<const kernels::Message> messages) override;
  [[nodiscard]] bool sums() const override { return true; }
  void all_reduce(const Exec& exec, std::span<float> words, size_t pairs) override;
  void check() override;
  void revoke() noexcept override;

 private:
  void finish(const char* what);
  void abort() noexcept;
  void refuse_revoked();
  [[nodiscard]] Exec exec() const { return {.device = Device::kCuda, .cuda = &table_}; }

  const cuda::Backend& table_;
  const std::function<void()> check_others_;
  int version_ = 0;
  void* comm_ = nullptr;
  std::atomic<bool> revoked_ = false;
};

NcclTransport::NcclTransport(Communicator& host, const cuda::Backend& table,
                             std::function<void()> check_others)
    : Transport(host.rank(), host.size()), table_(table), check_others_(std::move(check_others)) {
  version_ = kernels::nccl_version(exec());  // before any rank waits for one that has none
  ThreadPool pool(1);
  kernels::NcclId id;
  if (rank() == 0) id = kernels::nccl_unique_id(exec());
  host.broadcast({.pool = &pool}, std::as_writable_bytes(std::span(&id, 1)), 0);
  comm_ = kernels::nccl_join(exec(), id, size(), rank());
  try {
    finish("for NCCL to join all ranks");
  } catch (...) {
    NcclTransport::revoke();
    abort();
    throw;
  }
}

// The first error counts, and has been reported.
void NcclTransport::abort() noexcept {
  try {
    kernels::nccl_abort(exec(), comm_);
  } catch (const std::exception&) {
  }
}

// A destructor cannot report errors.
NcclTransport::~NcclTransport() {
  try {
    if (!revoked_) {
      kernels::nccl_finalize(exec(), comm_);
      finish("for the other ranks to part");
      kernels::nccl_destroy(exec(), comm_);
      return;
    }
  } catch (const std::exception&) {
    NcclTransport::revoke();
  }
  abort();
}

// Until the call that was made last has ended.
void NcclTransport::finish(const char* what) {
  Wait wait;
  while (!kernels::nccl_ready(exec(), comm_)) {
    check_others_();
    wait.check(rank(), what);
    if (wait.so_far() < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

void NcclTransport::refuse_revoked() {
  if (!revoked_) return;
  check_others_();
  raise<DeviceError>("rank {}: a call after the end of the ranks' communication", rank());
}

void NcclTransport::exchange(const Exec& exec, std::span<const kernels::Message> messages) {
  refuse_revoked();
  kernels::nccl_exchange(exec, comm_, messages.data(), std::ssize(messages));
  finish("for NCCL to take messages");
}

void NcclTransport::all_reduce(const Exec& exec, std::span<float> words, size_t pairs) {
  if (words.empty()) return;
  refuse_revoked();
  kernels::nccl_sum(exec, comm_, words.data(), std::ssize(words), static_cast<int64_t>(pairs));
  finish("for NCCL to take a sum");
}

void NcclTransport::check() {
  if (!revoked_) (void)kernels::nccl_ready(exec(), comm_);
}

void NcclTransport::revoke() noexcept {
  if (revoked_.exchange(true)) return;
  try {
    kernels::nccl_revoke(exec(), comm_);
  } catch (const std::exception&) {  // there is another error already
  }
}

}  // namespace

std::unique_ptr<Transport> join_by_nccl(Communicator& host, const cuda::Backend& table,
                                        std::function<void()> check_others) {
  return std::make_unique<NcclTransport>(host, table, std::move(check_others));
}

}  // namespace hlite::comm
