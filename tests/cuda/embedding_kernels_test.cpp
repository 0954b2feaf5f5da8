// Lookups and initial values of tables on the emulated device and, where there is one, on the GPU.
#include <string>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/key_errors.h"
#include "embedding/lookup.h"
#include "embedding/table_init.h"
#include "hugectr_lite/core/fill.h"
#include "tests/cuda/embedding_device.h"
#include "tests/support/errors.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

using embedding::Combiner;
using embedding::KeyError;
using embedding::KeyErrors;

std::vector<double> lookup_oracle(const LookupCase& x) {
  std::vector<double> out;
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t s = 0; s < x.layout.slots(); ++s) {
      const std::vector<int64_t> rows = x.rows_of(b, s);
      for (int64_t j = 0; j < x.layout.width; ++j) {
        double sum = 0;
        for (const int64_t row : rows)
          sum += static_cast<double>(x.table[static_cast<size_t>(row * x.layout.width + j)]);
        out.push_back(rows.empty() ? 0 : sum * x.weight(rows.size()));
      }
    }
  return out;
}

template <typename T>
std::vector<float> run_lookup(const OnDevice& device, const LookupCase& x, size_t shift = 0) {
  // Memory that is not aligned to pieces: everything begins `shift` elements late.
  std::vector<float> shifted(shift, 0);
  shifted.insert(shifted.end(), x.table.begin(), x.table.end());
  const DeviceArray<float> table(device.ops(), shifted);
  const DeviceArray<uint32_t> keys(device.ops(), x.keys);
  const DeviceArray<T> out(device.ops(), x.dout.size() + 2 * shift + 1);
  const embedding::DeviceSlots slots(device.exec(), x.layout);
  lookup_forward(device.exec(), slots.ref(),
                 Matrix<const float>(table.data() + shift, x.layout.total_rows, x.layout.width),
                 {keys.data(), x.batch, x.layout.keys.columns},
                 View<T, 3>(out.data() + shift, x.batch, x.layout.slots(), x.layout.width));
  std::vector<T> values = out.to_host(device.stream());
  CHECK(to_float(values.back()) != to_float(values.back()));  // nothing written past the end: NaN
  return widened(std::vector<T>(values.begin() + static_cast<int64_t>(shift),
                                values.end() - static_cast<int64_t>(shift) - 1));
}

// Rows alone in their slot are rounded once, with the bits of from_float; sums to what T resolves.
template <typename T>
void check_lookup(const OnDevice& device, const LookupCase& x, size_t shift = 0) {
  const std::vector<double> want = lookup_oracle(x);
  const std::vector<float> got = run_lookup<T>(device, x, shift);
  check_close<const float, const double>(got, want, resolution<T>(5e-6), describe(x).c_str());
  bool exact = true;
  for (int64_t b = 0, i = 0; b < x.batch; ++b)
    for (int64_t s = 0; s < x.layout.slots(); ++s) {
      const bool alone = x.rows_of(b, s).size() < 2;
      for (int64_t j = 0; j < x.layout.width; ++j, ++i) {
        const auto k = static_cast<size_t>(i);
        const float row = to_float(from_float<T>(static_cast<float>(want[k])));
        exact &= !alone || got[k] == row;
      }
    }
  CHECK(exact);
}

TEST_CASE("lookup kernels copy the rows of one-hot keys", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const auto& rows : table_sizes())
      for (const int64_t width : {1, 3, 4, 16, 33, 64, 128, 260})
        for (const int64_t batch : {0, 1, 7, 61}) {
          const LookupCase x(rows, width, batch);
          check_lookup<float>(device, x);
          check_lookup<bf16>(device, x);
          check_lookup<fp16>(device, x);
        }
  }
}

TEST_CASE("lookup kernels add up, or average, the rows of several keys", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
      for (const auto& hotness : {std::vector<int64_t>{3, 1, 40}, {1, 1, 1}, {2, 1, 1}})
        for (const int64_t width : {1, 3, 8, 33, 128, 264})
          for (const int64_t batch : {0, 1, 23}) {
            const LookupCase x({1000, 3, 40}, width, batch, hotness, combiner);
            check_lookup<float>(device, x);
            check_lookup<bf16>(device, x);
            check_lookup<fp16>(device, x);
          }
  }
}

TEST_CASE("lookup kernels take hundreds of slots, and memory at any address", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    check_lookup<float>(device, LookupCase(std::vector<int64_t>(700, 5), 4, 2));
    for (const size_t shift : {1, 2, 4, 8}) {
      check_lookup<float>(device, LookupCase({50, 3}, 16, 9), shift);
      check_lookup<bf16>(device, LookupCase({50, 3}, 16, 9, {2, 3}), shift);
    }
  }
}

TEST_CASE("lookup kernels give the same bits in any order of threads") {
  const OnDevice device(emulated_cuda());
  for (const LookupCase& x :
       {LookupCase({1000, 3, 40}, 24, 50), LookupCase({1000, 3, 40}, 24, 50, {3, 1, 40})}) {
    const std::vector<float> want = run_lookup<bf16>(device, x);
    for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 3);
      CHECK((run_lookup<bf16>(device, x) == want));
    }
    emulation::set_order(emulation::Order::kForward);
  }
}

TEST_CASE("the lookup kernel's sums have the bits of the CPU's") {
  const OnDevice device(emulated_cuda());
  ThreadPool pool(2);
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
    const LookupCase x({1000, 3, 40}, 33, 50, {3, 1, 40}, combiner);
    std::vector<float> want(x.dout.size());
    const embedding::DeviceSlots slots({.pool = &pool}, x.layout);
    lookup_forward({.pool = &pool}, slots.ref(),
                   Matrix<const float>(x.table.data(), x.layout.total_rows, 33), x.keys_view(),
                   View<float, 3>(want.data(), x.batch, 3, 33));
    CHECK((run_lookup<float>(device, x) == want));
  }
}

// One lookup of the two slots of tables {10, 20} of width 4; the first sample of `keys` first.
class CheckedLookup {
 public:
  CheckedLookup(const OnDevice& device, embedding::SlotLayout layout)
      : device_(device),
        layout_(std::move(layout)),
        slots_(device.exec(), layout_),
        errors_(device.exec(), layout_.keys.columns),
        table_(device.ops(), std::vector<float>(30 * 4, 1.0f)) {}

  std::vector<float> run(const std::vector<uint32_t>& keys, int64_t step) {
    const int64_t batch = static_cast<int64_t>(keys.size()) / layout_.keys.columns;
    const DeviceArray<uint32_t> device_keys(device_.ops(), keys);
    const DeviceArray<int64_t> device_step(device_.ops(), std::vector<int64_t>{step});
    const DeviceArray<float> out(device_.ops(), static_cast<size_t>(batch * 2 * 4));
    lookup_forward(device_.exec(), slots_.ref(), Matrix<const float>(table_.data(), 30, 4),
                   {device_keys.data(), batch, layout_.keys.columns},
                   View<float, 3>(out.data(), batch, 2, 4), errors_.check(device_step.data()));
    errors_.fetch(device_.exec());
    return out.to_host(device_.stream());  // waits
  }
  [[nodiscard]] std::optional<KeyError> found() const { return errors_.found(); }

 private:
  const OnDevice& device_;
  const embedding::SlotLayout layout_;
  const embedding::DeviceSlots slots_;
  KeyErrors errors_;
  const DeviceArray<float> table_;
};

TEST_CASE("keys beyond their table are recorded, the first one, and read as absent", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    CheckedLookup lookup(device, {{10, 20}, 4});
    lookup.run({9, 19, 0, 0}, 5);
    CHECK(!lookup.found());
    lookup.run({kNoKey, 19, 0, kNoKey}, 6);
    CHECK(!lookup.found());
    std::vector<uint32_t> keys(200, 3);
    keys[131] = 20;
    keys[144] = 4000000000u;
    keys[190] = 10;
    const std::vector<float> out = lookup.run(keys, 7);
    REQUIRE(lookup.found());
    CHECK(*lookup.found() == KeyError{.step = 7, .sample = 65, .column = 1, .key = 20});
    for (size_t i = 0; i < keys.size(); ++i)
      CHECK(out[4 * i] == (i == 131 || i == 144 || i == 190 ? 0.0f : 1.0f));
    // Later steps do not hide the first.
    lookup.run({10, 0}, 8);
    CHECK(*lookup.found() == KeyError{.step = 7, .sample = 65, .column = 1, .key = 20});
  }
}

TEST_CASE("keys beyond their table are found among several of a slot", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    // A column of another layer before and after.
    CheckedLookup lookup(device,
                         {{10, 20}, 4, KeyLayout({1, 3, 2, 1}), embedding::Combiner::kSum, 1});
    const uint32_t other = 77, none = kNoKey;
    const std::vector<float> out = lookup.run({other, 0, 1, none, 19, 19, other,  //
                                               other, 9, 10, 9, 0, 20, other},
                                              1);
    REQUIRE(lookup.found());
    CHECK(*lookup.found() == KeyError{.step = 1, .sample = 1, .column = 2, .key = 10});
    CHECK(std::vector<float>{out[0], out[4], out[8], out[12]} == std::vector<float>{2, 2, 2, 1});
  }
}

TEST_CASE("lookup_forward on a GPU refuses shapes that do not match") {
  const OnDevice device(emulated_cuda());
  const LookupCase x({10, 20}, 4, 3);
  const embedding::DeviceSlots slots(device.exec(), x.layout);
  const DeviceArray<float> table(device.ops(), x.table), out(device.ops(), 3 * 2 * 4);
  const DeviceArray<uint32_t> keys(device.ops(), x.keys);
  const auto run = [&](int64_t rows, int64_t columns, int64_t width) {
    lookup_forward(device.exec(), slots.ref(), Matrix<const float>(table.data(), rows, 4),
                   {keys.data(), 3, columns}, View<float, 3>(out.data(), 3, 2, width));
  };
  CHECK_NOTHROW(run(30, 2, 4));
  CHECK_THROWS_AS(run(29, 2, 4), Error);
  CHECK_THROWS_AS(run(30, 1, 4), Error);
  CHECK_THROWS_AS(run(30, 2, 3), Error);
  const embedding::SlotLayout huge({0xffffffffll - 1, 1}, 4);
  check_contains(message_of<Error>([&] { embedding::DeviceSlots(device.exec(), huge); }),
                 {"fewer than 2^32 - 1 rows", "4294967295"});
}

TEST_CASE("init_tables on a GPU makes the CPU's bits", "[gpu]") {
  ThreadPool pool(1);
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {1, 3, 4, 16, 33}) {
      const embedding::SlotLayout layout({5, 1, 100, 7}, width);
      const auto n = static_cast<size_t>(layout.total_rows * width);
      std::vector<float> want(n);
      embedding::init_tables({.pool = &pool}, 9, "emb", layout,
                             {want.data(), layout.total_rows, width});
      const DeviceArray<float> got(device.ops(), n);
      embedding::init_tables(device.exec(), 9, "emb", layout,
                             {got.data(), layout.total_rows, width});
      INFO("width " << width);
      CHECK((got.to_host(device.stream()) == want));
    }
  }
}

TEST_CASE("fill_uniform and fill write the given range, and nothing else", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t n : {0, 1, 2, 5, 64, 1031})
      for (const uint64_t first : {0ull, 1ull, 7ull, (1ull << 34) + 2})
        for (const size_t shift : {0, 1, 3}) {
          const DeviceArray<float> out(device.ops(), static_cast<size_t>(n) + shift + 4);
          const auto size = static_cast<int64_t>(shift + 4) + n;
          kernels::fill(device.exec(), {out.data(), size}, -7.0f);
          kernels::fill_uniform(device.exec(), {out.data() + shift, n}, 3, 11, first, -2, 1);
          std::vector<float> want(static_cast<size_t>(size), -7.0f);
          random::fill_uniform(want.data() + shift, n, 3, 11, first, -2, 1);
          INFO(n << " values from " << first << " at " << shift);
          CHECK((out.to_host(device.stream()) == want));
        }
  }
}

}  // namespace
}  // namespace hlite::test
