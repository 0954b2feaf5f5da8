// What it costs a rank to learn which rows it needs and which it must hand out, in two ways:
//
//   exchanged    it sorts its own B/N samples and tells each owner what it wants (ours)
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

#include "embedding/key_routing.h"
#include "embedding/key_sort.h"
#include "hugectr_lite/core/random.h"

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

void run(int argc, char** argv) {
  CLI::App app("Index lists from exchanged keys, or from the whole batch on every rank.");
  int64_t batch = 55296, slots = 26, rows = 1'000'000;
  double zipf = 1.2, seconds = 1;
  std::vector<int> ranks = {8, 112};
  app.add_option("--batch", batch, "samples of all ranks together");
  app.add_option("--slots", slots);
  app.add_option("--rows", rows, "of each table");
  app.add_option("--zipf", zipf)->check(CLI::Range(1.01, 5.0));
  app.add_option("--ranks", ranks)->delimiter(',');
  app.add_option("--seconds", seconds, "of each measurement");
  app.parse(argc, argv);

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
    embedding::KeyRouting routing(placement, mine, 1);
    const double exchanged = best_ms(seconds, [&] {
      routing.route(exec, {keys.data(), mine, slots}, mine * slots);
    });

    std::vector<uint32_t> owned(static_cast<size_t>(batch), kNoKey);
    std::vector<uint64_t> pairs(owned.size()), scratch(owned.size());
    std::vector<uint32_t> counts(embedding::kSortCounts);
    const double whole =
        exchanged + best_ms(seconds, [&] {
          for (int64_t s = 0; s < slots; ++s) {
            size_t found = 0;
            for (int64_t b = 0; b < batch; ++b) {
              const uint32_t key = keys[static_cast<size_t>(b * slots + s)];
              owned[found] = key;
              found += placement.locate(s, key).rank == 0;
            }
            embedding::sort_pairs({owned.data(), static_cast<int64_t>(found), 1}, 0, 1, rows,
                                  pairs.data(), scratch.data(), counts.data());
          }
        });
    const double sample_bytes = 4.0 * static_cast<double>(1 + 13 + slots);
    fmt::print("{:>6} | {:>12.2f} {:>12.0f} {:>12.0f} | {:>12.2f} {:>12.0f} | {:>6.2f}\n", n,
               exchanged, 4.0 * static_cast<double>(routing.listed()),
               static_cast<double>(mine) * sample_bytes, whole,
               static_cast<double>(batch) * sample_bytes, whole / exchanged);
  }
}

}  // namespace
}  // namespace hlite

int main(int argc, char** argv) {
  try {
    hlite::run(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return CLI::App().exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "routing_bench: {}\n", error.what());
    return 1;
  }
}
