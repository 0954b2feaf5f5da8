// Times the two ways in which rows of tables beyond a GPU's memory can cross the bus.
//
//   row_transfer_bench [--rows N] [--missing N] [--widths V,...] [--threads N] [--seconds S]
//
//   kernel   what training does: DeviceRowCache::admit() of a batch whose rows are all missing. A
//            kernel writes the evicted rows to page-locked host memory and reads the new
//            ones there. It includes the search for missing rows and for rows to evict.
//   packing  host threads copy the new rows into one page-locked block, which is copied to the GPU;
//            a block of evicted rows is copied back, and host threads put them in place.
//
// `missing` rows of `width` floats cross the bus each way; 115,000 are 8 % of the lookups of a
// batch of 55,296 samples of 26 slots. A line per width, GB/s of one way and their share of the
// rate of one large copy.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "embedding/device_row_cache.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/run_program.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/bench/bench_gpu.h"

namespace hlite::bench {
namespace {

struct TransferOptions {
  int64_t rows = 2'000'000, missing = 115'000;
  std::vector<int64_t> widths = {16, 64, 128};
  int threads = available_threads();
  double seconds = 0.5;  // of each measurement
};

// Batches of distinct rows, none of which follows itself: [batches, missing], drawn.
std::vector<uint32_t> drawn_rows(const TransferOptions& o, int64_t batches) {
  std::vector<uint32_t> rows(static_cast<size_t>(o.rows));
  std::iota(rows.begin(), rows.end(), 0u);
  for (size_t i = rows.size() - 1; i > 0; --i)
    std::swap(rows[i], rows[random::word(1, 1, i) % (i + 1)]);
  rows.resize(static_cast<size_t>(batches * o.missing));
  return rows;
}

class Transfer {
 public:
  Transfer(const Gpu& gpu, const TransferOptions& o, int64_t width)
      : gpu_(gpu),
        o_(o),
        width_(width),
        batches_(std::min<int64_t>(o.rows / o.missing, 16)),
        rows_(drawn_rows(o, batches_)),
        lines_(gpu.exec(), static_cast<size_t>(bytes()), "lines"),
        keys_(gpu.exec(), rows_.size() * sizeof(uint32_t), "rows"),
        found_(gpu.exec(), static_cast<size_t>(o.missing) * sizeof(uint32_t), "lines of rows"),
        block_(gpu.table(), static_cast<size_t>(bytes())),
        back_(gpu.table(), static_cast<size_t>(bytes())),
        cache_({.name = "bench",
                .rows = o.rows,
                .lines = o.missing,
                .widths = {width},
                .max_lookups = o.missing}) {
    cache_.attach(gpu.exec(), {.w = Matrix<float>(lines_of(lines_.data()), o.missing, width)});
    gpu.table().copy(keys_.data(), rows_.data(), keys_.size(), gpu.exec().stream);
    gpu.synchronize();
  }

  // Bytes in one direction.
  [[nodiscard]] int64_t bytes() const { return o_.missing * width_ * 4; }
  // Seconds of a large copy to the GPU, for a byte.
  [[nodiscard]] double copy_seconds() const {
    return gpu_.mean_seconds(o_.seconds, false, [&] { copy_in(); }) / static_cast<double>(bytes());
  }
  [[nodiscard]] double kernel_seconds() {
    const int64_t before = cache_.counts().fetched;
    int64_t calls = 0;
    const double seconds = gpu_.mean_seconds(o_.seconds, false, [&] { admit(calls++); });
    const embedding::RowCacheCounts counts = cache_.counts();
    if (counts.fetched - before != calls * o_.missing || counts.written < (calls - 1) * o_.missing)
      raise<Error>("expected {} rows each way, found {} and {}", calls * o_.missing,
                   counts.fetched - before, counts.written);
    return seconds;
  }
  // All rows are there: what the search alone costs.
  [[nodiscard]] double search_seconds() {
    return gpu_.mean_seconds(o_.seconds, false, [&] { admit(0); });
  }
  [[nodiscard]] double packing_seconds(ThreadPool& pool) {
    auto* const table = cache_.host_rows().w.as<float>().data();
    int64_t call = 0;
    return gpu_.mean_seconds(o_.seconds, false, [&] {
      const uint32_t* const rows = rows_.data() + call++ % batches_ * o_.missing;
      for_each_row(pool, [&](int64_t i) {
        copy_row(lines_of(block_.data()) + i * width_, table + rows[i] * width_);
      });
      copy_in();
      gpu_.table().copy(back_.data(), lines_.data(), static_cast<size_t>(bytes()),
                        gpu_.exec().stream);
      gpu_.synchronize();
      for_each_row(pool, [&](int64_t i) {
        copy_row(table + rows[i] * width_, lines_of(back_.data()) + i * width_);
      });
    });
  }

 private:
  static float* lines_of(std::byte* data) { return reinterpret_cast<float*>(data); }
  void copy_row(float* to, const float* from) const {
    std::memcpy(to, from, static_cast<size_t>(width_) * sizeof(float));
  }
  template <typename Body>
  void for_each_row(ThreadPool& pool, Body&& body) const {
    pool.parallel_for(o_.missing, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }
  void copy_in() const {
    gpu_.table().copy(lines_.data(), block_.data(), static_cast<size_t>(bytes()),
                      gpu_.exec().stream);
  }
  void admit(int64_t batch) const {
    auto* const rows = reinterpret_cast<uint32_t*>(keys_.data()) + batch % batches_ * o_.missing;
    const Matrix<const uint32_t> of(rows, o_.missing, 1);
    cache_.admit(gpu_.exec(), of, of,
                 Matrix<uint32_t>(reinterpret_cast<uint32_t*>(found_.data()), o_.missing, 1), 0, 1,
                 /*training=*/true);
  }

  const Gpu& gpu_;
  const TransferOptions& o_;
  const int64_t width_, batches_;
  const std::vector<uint32_t> rows_;
  ExecMemory lines_, keys_, found_;
  PinnedMemory block_, back_;
  embedding::DeviceRowCache cache_;
};

void run(const TransferOptions& o) {
  if (o.rows < 2 * o.missing)
    raise<ConfigError>("--rows: expected at least {}, twice --missing, found {}", 2 * o.missing,
                       o.rows);
  const Gpu gpu(false);
  ThreadPool pool(o.threads);
  fmt::print("{}: {} of {} rows each way, {} host threads\n", gpu.name(), o.missing, o.rows,
             o.threads);
  for (const int64_t width : o.widths) {
    Transfer transfer(gpu, o, width);
    const auto bytes = static_cast<double>(transfer.bytes());
    const double bus = 1 / transfer.copy_seconds();
    const auto line = [&](const char* way, double seconds, const std::string& more) {
      fmt::print("width {:3}, {:7}: {:9.4f} ms, {:6.2f} GB/s each way, {:5.1f} % of the bus{}\n",
                 width, way, 1e3 * seconds, bytes / seconds * 1e-9, 100 * bytes / seconds / bus,
                 more);
    };
    const double kernel = transfer.kernel_seconds(), search = transfer.search_seconds();
    line("copy", bytes / bus, "");
    line("kernel", kernel, fmt::format("; {:.4f} ms where no row is missing", 1e3 * search));
    line("packing", transfer.packing_seconds(pool), "");
  }
}

}  // namespace
}  // namespace hlite::bench

int main(int argc, char** argv) {
  hlite::bench::TransferOptions o;
  CLI::App app("Times rows that cross the bus between a GPU and page-locked host memory",
               "row_transfer_bench");
  app.set_version_flag("--version", fmt::format("row_transfer_bench {}", hlite::kVersion));
  app.add_option("--rows", o.rows, "rows in host memory")
      ->check(hlite::whole_number(2, 1 << 30))
      ->capture_default_str();
  app.add_option("--missing", o.missing, "rows of a batch, none of which is on the GPU")
      ->check(hlite::whole_number(1, 1 << 29))
      ->capture_default_str();
  app.add_option("--widths", o.widths, "floats a row")
      ->delimiter(',')
      ->check(hlite::whole_number(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "host threads that pack")
      ->check(hlite::whole_number(1, 4096))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "of each measurement")->capture_default_str();
  return hlite::run_program(app, argc, argv, [&] {
    hlite::bench::run(o);
    return hlite::kExitDone;
  });
}
