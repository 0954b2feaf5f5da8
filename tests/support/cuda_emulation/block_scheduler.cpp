#include "tests/support/cuda_emulation/block_scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

namespace hlite::emulation {
namespace {

std::string text_of(Triple t) { return fmt::format("({},{},{})", t.x, t.y, t.z); }

std::string text_of(const std::source_location& site) {
  return fmt::format("{}:{}", site.file_name(), site.line());
}

bool same_site(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace

BlockScheduler block_scheduler;

// First function on a carrier's stack.
void BlockScheduler::enter() {
  Track::entered(block_scheduler.main_);
  std::exception_ptr error;
  try {
    do {
      (*block_scheduler.body_)();
      block_scheduler.finish_thread();
    } while (block_scheduler.goes_on_with_next());
  } catch (...) {
    error = std::current_exception();
  }
  block_scheduler.end(std::move(error));
}

void BlockScheduler::finish_thread() {
  if (!current_->open_copies.empty() || !current_->copies.empty())
    fail(fmt::format("thread {} has ended without waiting for its copies",
                     text_of(current_->thread)));
  current_->state = FiberState::kEnded;
  ++ended_;
}

void BlockScheduler::end(std::exception_ptr&& error) {
  error_ = std::move(error);  // nothing stays on this stack
  Carrier& carrier = *current_->carrier;
  current_->state = FiberState::kEnded;
  idle_.push_back(&carrier);
  carrier.track.switch_to(main_, /*last=*/true);
  std::abort();  // nobody comes back here
}

void BlockScheduler::prepare(Triple block_dim) {
  const size_t before = fibers_.size();
  count_ = size_t{block_dim.x} * block_dim.y * block_dim.z;
  while (fibers_.size() < count_) fibers_.emplace_back();
  const bool same = block_dim.x == block_dim_.x && block_dim.y == block_dim_.y &&
                    block_dim.z == block_dim_.z && before == fibers_.size();
  for (size_t i = 0; i < count_; ++i) {
    Fiber& fiber = fibers_[i];
    const auto t = static_cast<unsigned>(i);
    if (!same)
      fiber.thread = {t % block_dim.x, t / block_dim.x % block_dim.y,
                      t / block_dim.x / block_dim.y};
    fiber.state = FiberState::kReady;
    fiber.carrier = nullptr;
    fiber.bytes = 0;
    // Left by a block that failed.
    if (!fiber.open_copies.empty()) fiber.open_copies.clear();
    if (!fiber.copies.empty()) fiber.copies.clear();
  }
  block_dim_ = block_dim;
  ended_ = 0;
  idle_.clear();
  for (Carrier& carrier : carriers_) idle_.push_back(&carrier);
  turns_.resize(count_);
  std::iota(turns_.begin(), turns_.end(), size_t{0});
  if (order_ == Order::kReverse) std::reverse(turns_.begin(), turns_.end());
}

Carrier& BlockScheduler::idle_carrier() {
  if (idle_.empty()) return carriers_.emplace_back();
  Carrier& carrier = *idle_.back();
  idle_.pop_back();
  return carrier;
}

void BlockScheduler::give_turn(Fiber& fiber, Carrier& carrier) {
  current_ = &fiber;
  fiber.carrier = &carrier;
  here.thread = fiber.thread;
}

// Whether the turn is that of a thread which has not begun: then it runs on this stack.
bool BlockScheduler::goes_on_with_next() {
  while (turn_ < count_ && fibers_[turns_[turn_]].state != FiberState::kReady) ++turn_;
  if (turn_ == count_ || fibers_[turns_[turn_]].carrier) return false;
  give_turn(fibers_[turns_[turn_++]], *current_->carrier);
  return true;
}

void BlockScheduler::resume(Fiber& fiber) {
  if (fiber.carrier) {
    give_turn(fiber, *fiber.carrier);
  } else {
    give_turn(fiber, idle_carrier());
    fiber.carrier->track.begin(&BlockScheduler::enter);
  }
  main_.switch_to(fiber.carrier->track);
  current_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void BlockScheduler::run_block(Triple block_dim, FunctionRef<void()> body) {
  body_ = &body;
  prepare(block_dim);
  while (ended_ < count_) {
    if (order_ == Order::kShuffled) std::shuffle(turns_.begin(), turns_.end(), random_);
    for (turn_ = 0; turn_ < count_;) {
      Fiber& fiber = fibers_[turns_[turn_++]];
      if (fiber.state == FiberState::kReady) resume(fiber);
    }
    if (ended_ < count_ && !release()) fail_stuck();
  }
}

bool BlockScheduler::release() {
  if (release_barrier()) return true;
  bool any = false;
  for (size_t first = 0; first < count_; first += kWarpSize)
    any |= release_warp(first, std::min(first + kWarpSize, count_));
  return any;
}

// Every thread of the block must come, to the same line: one that has ended is missed, too.
bool BlockScheduler::release_barrier() {
  for (size_t i = 0; i < count_; ++i) {
    const Fiber& fiber = fibers_[i];
    if (fiber.state != FiberState::kAtBarrier || !same_site(fiber.site, fibers_[0].site))
      return false;
  }
  for (size_t i = 0; i < count_; ++i) fibers_[i].state = FiberState::kReady;
  return true;
}

// Releases one complete group of lanes after the other.
bool BlockScheduler::release_warp(size_t first, size_t last) {
  bool any = false;
  for (size_t i = first; i < last; ++i) {
    const Fiber& asks = fibers_[i];
    if (asks.state != FiberState::kAtExchange) continue;
    if ((asks.mask >> (i - first) & 1) == 0)
      fail(fmt::format("{} with mask {:#010x}, which lacks its own lane {}", whereabouts(asks),
                       asks.mask, i - first));
    unsigned lanes = 0;
    bool complete = true;
    for (size_t j = first; j < last; ++j) {
      const Fiber& other = fibers_[j];
      if ((asks.mask >> (j - first) & 1) == 0 || other.state == FiberState::kEnded) continue;
      complete &= other.state == FiberState::kAtExchange && other.mask == asks.mask &&
                  same_site(other.site, asks.site);
      lanes |= 1u << (j - first);
    }
    if (!complete) continue;
    finish_exchange(first, last, lanes);
    any = true;
  }
  return any;
}

void BlockScheduler::finish_exchange(size_t first, size_t last, unsigned lanes) {
  unsigned votes = 0;
  for (size_t j = first; j < last; ++j)
    if (lanes >> (j - first) & 1) votes |= unsigned{fibers_[j].predicate} << (j - first);
  for (size_t j = first; j < last; ++j) {
    Fiber& fiber = fibers_[j];
    if ((lanes >> (j - first) & 1) == 0) continue;
    if ((lanes >> fiber.source_lane & 1) == 0)
      fail(fmt::format("{} and reads lane {}, which takes no part", whereabouts(fiber),
                       fiber.source_lane));
    fiber.result = {fibers_[first + fiber.source_lane].value, votes, lanes};
    fiber.state = FiberState::kReady;
    if (fiber.bytes == 0) continue;
    if (lanes != 0xffffffffu)
      fail(fmt::format("{}: expected all {} lanes of the warp", whereabouts(fiber), kWarpSize));
    for (size_t l = 0; l < kWarpSize; ++l)
      std::memcpy(static_cast<std::byte*>(fiber.all) + l * fiber.bytes, fibers_[first + l].mine,
                  fiber.bytes);
  }
}

std::string BlockScheduler::whereabouts(const Fiber& fiber) {
  const std::string thread = "thread " + text_of(fiber.thread);
  if (fiber.state == FiberState::kEnded) return thread + " has ended";
  return fmt::format("{} waits at {} ({})", thread, fiber.what, text_of(fiber.site));
}

void BlockScheduler::fail(const std::string& text) {
  throw EmulationError(fmt::format("block {}: {}", text_of(here.block), text));
}

// Names the first thread that waits, and the first one that it waits for in vain.
void BlockScheduler::fail_stuck() {
  size_t i = 0;
  while (fibers_[i].state == FiberState::kEnded) ++i;
  const Fiber& waits = fibers_[i];
  const bool warp = waits.state == FiberState::kAtExchange;
  const size_t first = warp ? i / kWarpSize * kWarpSize : 0;
  const size_t last = warp ? std::min(first + kWarpSize, count_) : count_;
  for (size_t j = first; j < last; ++j) {
    const Fiber& other = fibers_[j];
    const bool expected =
        !warp || ((waits.mask >> (j - first) & 1) != 0 && other.state != FiberState::kEnded);
    const bool came = other.state == waits.state && same_site(other.site, waits.site) &&
                      (!warp || other.mask == waits.mask);
    if (expected && !came)
      fail(fmt::format("divergent barrier: {}, but {}", whereabouts(waits), whereabouts(other)));
  }
  fail(fmt::format("{}, and nobody can go on", whereabouts(waits)));
}

}  // namespace hlite::emulation
