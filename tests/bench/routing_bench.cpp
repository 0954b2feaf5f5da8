// What it costs a rank to learn which rows it needs and which it must hand out, in two ways:
//
//   exchanged    it sorts its own B/N samples and sends each owner a request list (ours)
//   whole batch  every rank reads all B samples, sorts its own for what it needs, and picks and
//                sorts the keys of all samples that it owns, for what others need (HugeCTR)
//
//   routing_bench [--batch B] [--slots S] [--rows R] [--zipf A] [--ranks N,...] [--seconds T]
//
// One thread; every row of every table on the rank key mod N.
// The bytes are of a rank and iteration.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "embedding/cutter.h"
#include "embedding/device_placement.h"
#include "embedding/device_slots.h"
#include "embedding/key_sort.h"
#include "embedding/routing.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/run_program.h"

namespace hlite {
namespace {

using Clock = std::chrono::steady_clock;

// Keys of a Zipf law of exponent a > 1 by inversion of its continuous form, scattered.
std::vector<uint32_t> zipf_keys(int64_t n, int64_t slots, int64_t rows, double a) {
  std::vector<uint32_t> keys;
  const double top = std::pow(static_cast<double>(rows), 1 - a);
  for (int64_t i = 0; i < n * slots; ++i) {
    const double u = random::word(5, 1, static_cast<uint64_t>(i)) * 0x1p-32;
    const auto rank = static_cast<uint64_t>(std::pow(1 - u * (1 - top), 1 / (1 - a)));
    const auto slot = static_cast<uint64_t>(i % slots);
    keys.push_back(
        static_cast<uint32_t>((rank * 2654435761u + slot) % static_cast<uint64_t>(rows)));
  }
  return keys;
}

double best_ms(double seconds, const std::function<void()>& work) {
  work();
  double best = 1e30;
  for (const auto start = Clock::now();
       std::chrono::duration<double>(Clock::now() - start).count() < seconds;) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return best;
}

struct Options {
  int64_t batch = 55296, slots = 26, rows = 1'000'000;
  double zipf = 1.2, seconds = 1;
  std::vector<int> ranks = {8, 112};
};

void define(CLI::App& app, Options& o) {
  app.add_option("--batch", o.batch, "Samples of all ranks together")
      ->check(whole_number(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--slots", o.slots, "Tables")
      ->check(whole_number(1, 1 << 12))
      ->capture_default_str();
  app.add_option("--rows", o.rows, "Of each table")
      ->check(whole_number(1, UINT32_MAX))
      ->capture_default_str();
  app.add_option("--zipf", o.zipf, "Exponent of the keys' distribution")
      ->check(CLI::Range(1.01, 5.0))
      ->capture_default_str();
  app.add_option("--ranks", o.ranks, "Several numbers, one after the other")
      ->delimiter(',')
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "Of each measurement")->capture_default_str();
}

// A rank's routing, with capacity for all rows that its samples can request.
class Routed {
 public:
  Routed(const Exec& exec, const embedding::RowPlacement& placement, int64_t batch)
      : placement_(exec, placement),
        slots_(exec, placement.layout()),
        args_{.slots = slots_.ref(),
              .placement = placement_.ref(),
              .shape = {.ranks = placement.ranks(),
                        .capacity = batch * placement.layout().columns(),
                        .width = placement.layout().width}} {
    args_.workspace_bytes =
        embedding::routing_workspace(exec, args_.slots, placement.ranks(), batch, 0, 1);
    for (std::byte* memory = nullptr;; memory = memory_.data()) {
      embedding::Cutter cutter(memory);
      const int64_t n = args_.shape.ranks;
      args_.workspace = cutter.cut<std::byte>(static_cast<int64_t>(args_.workspace_bytes));
      entries_ = cutter.cut<uint32_t>(args_.shape.capacity);
      args_.lists = {.blocks = cutter.cut<uint32_t>(n * args_.shape.block_words()),
                     .list_bytes = cutter.cut<int64_t>(n),
                     .counts = cutter.cut<uint32_t>(n + 1),
                     .vector_bytes = cutter.cut<int64_t>(n)};
      if (memory) break;
      memory_ = ExecMemory(exec, cutter.bytes(), "routing");
    }
  }
  void route(const Exec& exec, Matrix<const uint32_t> keys) {
    args_.keys = keys;
    args_.entries = {entries_, keys.dim(0), keys.dim(1)};
    embedding::route_keys(exec, args_);
  }
  // Rows that the last batch wants.
  [[nodiscard]] int64_t listed() const {
    return std::accumulate(args_.lists.counts, args_.lists.counts + args_.shape.ranks, int64_t{0});
  }

 private:
  embedding::DevicePlacement placement_;
  embedding::DeviceSlots slots_;
  embedding::RouteArgs args_;
  ExecMemory memory_;
  uint32_t* entries_ = nullptr;
};

void run(const Options& options) {
  const auto& [batch, slots, rows, zipf, seconds, ranks] = options;
  const auto keys = zipf_keys(batch, slots, rows, zipf);
  const embedding::SlotLayout layout(std::vector<int64_t>(static_cast<size_t>(slots), rows), 128);
  ThreadPool pool(1);
  const Exec exec{.pool = &pool};
  fmt::print("batch {}, {} slots of {} rows, Zipf {}; a rank and iteration\n", batch, slots, rows,
             zipf);
  fmt::print("{:>6} | {:>12} {:>12} {:>12} | {:>12} {:>12} | {:>6}\n", "ranks", "exchanged ms",
             "list bytes", "read bytes", "whole ms", "read bytes", "ratio");
  for (const int n : ranks) {
    std::vector<int> all;
    for (int q = 0; q < n; ++q) all.push_back(q);
    const auto placement = embedding::RowPlacement::by_table(
        layout, std::vector<std::vector<int>>(static_cast<size_t>(slots), all), n);
    const int64_t mine = batch / n;
    Routed routed(exec, placement, mine);
    const double exchanged = best_ms(seconds, [&] {
      routed.route(exec, {keys.data(), mine, slots});
    });

    std::vector<uint32_t> owned(static_cast<size_t>(batch), kNoKey);
    std::vector<uint64_t> pairs(owned.size()), scratch(owned.size());
    std::vector<uint32_t> counts(embedding::kSortCounts);
    const embedding::DeviceSlots one(exec, embedding::SlotLayout({rows}, 128));
    const double whole =
        exchanged + best_ms(seconds, [&] {
          for (int64_t s = 0; s < slots; ++s) {
            size_t found = 0;
            for (int64_t b = 0; b < batch; ++b) {
              const uint32_t key = keys[static_cast<size_t>(b * slots + s)];
              owned[found] = key;
              found += placement.locate(s, key).rank == 0;
            }
            const Matrix<const uint32_t> of(owned.data(), static_cast<int64_t>(found), 1);
            embedding::sort_bags({of, one.ref(), 0, rows}, pairs.data(), scratch.data(),
                                 counts.data());
          }
        });
    const double sample_bytes = 4.0 * static_cast<double>(1 + 13 + slots);
    fmt::print("{:>6} | {:>12.2f} {:>12.0f} {:>12.0f} | {:>12.2f} {:>12.0f} | {:>6.2f}\n", n,
               exchanged, 4.0 * static_cast<double>(routed.listed()),
               static_cast<double>(mine) * sample_bytes, whole,
               static_cast<double>(batch) * sample_bytes, whole / exchanged);
  }
}

}  // namespace
}  // namespace hlite

int main(int argc, char** argv) {
  hlite::Options options;
  CLI::App app("Index lists from exchanged keys, or from the whole batch on every rank.",
               "routing_bench");
  hlite::define(app, options);
  return hlite::run_program(app, argc, argv, [&] {
    hlite::run(options);
    return hlite::kExitDone;
  });
}
