// Kernels on rows whose elements lie beyond the reach of 31 and of 32 bits: tables as large as
// Criteo's largest together, of which few rows are touched. On the emulated device the others are
// never there; a GPU needs the memory.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/lookup.h"
#include "embedding/requested_rows.h"
#include "embedding/row_copies.h"
#include "embedding/sparse_update.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/cuda/embedding_device.h"

namespace hlite::test {
namespace {

using embedding::SlotLayout;
using optimizer::OptimizerType;

constexpr int64_t kFarWidth = 128, kFarRows = 40'000'000;
// On both sides of the edge between the two tables, of 2^31 elements and of 2^32; and the ends.
const std::vector<uint32_t> kFarPlaces = {0,        1,        999,      1000,     16777215,
                                          16777216, 33554431, 33554432, 39999998, 39999999};
constexpr int64_t kFarTable = 1000;   // rows of the first
constexpr uint32_t kFirstPlaces = 3;  // of which so many are in kFarPlaces

// Memory of a device for as many rows, which nobody fills. data() is null where there is none.
template <typename T>
class FarMemory {
 public:
  explicit FarMemory(const CudaBackend& backend)
      : table_(*backend.table), emulated_(backend.table == &emulated_cuda()) {
    void* data = nullptr;
    if (emulated_) {
      data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (data == MAP_FAILED) data = nullptr;
    } else {
      try {
        table_.allocate(&data, kBytes);
      } catch (const DeviceError&) {
        data = nullptr;
      }
    }
    data_ = static_cast<T*>(data);
  }
  ~FarMemory() {
    if (data_ && emulated_) munmap(data_, kBytes);
    if (data_ && !emulated_) table_.free(data_);
  }
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] Matrix<T> matrix() const { return {data_, kFarRows, kFarWidth}; }
  // The rows of kFarPlaces, one after another.
  void put(const std::vector<T>& rows, void* stream) const {
    for (size_t i = 0; i < kFarPlaces.size(); ++i)
      table_.copy(data_ + int64_t{kFarPlaces[i]} * kFarWidth, rows.data() + i * kFarWidth,
                  kRowBytes, stream);
    table_.stream_synchronize(stream);
  }
  [[nodiscard]] std::vector<T> get(void* stream) const {
    std::vector<T> rows(kFarPlaces.size() * kFarWidth);
    table_.stream_synchronize(
        stream);  // copies of memory that the emulator has not given wait for none
    for (size_t i = 0; i < kFarPlaces.size(); ++i)
      table_.copy(rows.data() + i * kFarWidth, data_ + int64_t{kFarPlaces[i]} * kFarWidth,
                  kRowBytes, stream);
    table_.stream_synchronize(stream);
    return rows;
  }

 private:
  static constexpr size_t kRowBytes = kFarWidth * sizeof(T), kBytes = kFarRows * kRowBytes;
  const cuda::Backend& table_;
  const bool emulated_;
  T* data_ = nullptr;
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
std::vector<T> far_values(size_t rows, uint64_t stream) {
  std::vector<float> values(rows * kFarWidth);
  fill_random(values, stream);
  return from_floats<T>(values);
}

// Two slots of a table each, and keys that are places; the same of tables that hold nothing else.
struct FarCase {
  SlotLayout far, near;
  std::vector<size_t> places;  // of each lookup
  std::vector<uint32_t> far_keys, near_keys;
  static constexpr int64_t kBatch = 70;

  explicit FarCase(const std::vector<int64_t>& hotness)
      : far({kFarTable, kFarRows - kFarTable}, kFarWidth, KeyLayout(hotness)),
        near({kFirstPlaces, std::ssize(kFarPlaces) - kFirstPlaces}, kFarWidth, KeyLayout(hotness)) {
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t c = 0; c < far.keys.columns; ++c) {
        const bool second = far.keys.slot_of(c) == 1;
        const size_t n = second ? kFarPlaces.size() - kFirstPlaces : kFirstPlaces;
        const size_t key = random::word(3, 1, static_cast<uint64_t>(places.size())) % n;
        places.push_back(key + (second ? kFirstPlaces : 0));
        near_keys.push_back(static_cast<uint32_t>(key));
        far_keys.push_back(kFarPlaces[places.back()] - (second ? uint32_t{kFarTable} : 0));
      }
  }
};

// body.operator()<W>(device, memory of W) on all devices with that memory.
template <typename W, typename Body>
void on_far_rows(Body&& body) {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name << ", " << sizeof(W) << " bytes an element");
    const FarMemory<W> rows(backend);
    if (rows.data())
      body(backend, OnDevice(*backend.table), rows);
    else
      WARN("no memory for " << kFarRows << " rows: " << backend.name << " is skipped");
  }
}

template <typename W, typename T>
void check_far_lookups() {
  on_far_rows<W>([](const CudaBackend&, const OnDevice& device, const FarMemory<W>& rows) {
    const auto values = far_values<W>(kFarPlaces.size(), 5);
    rows.put(values, device.stream());
    const DeviceArray<W> few(device.ops(), values);
    for (const auto& hotness : {std::vector<int64_t>{1, 1}, {2, 3}}) {
      const FarCase x(hotness);
      const auto pooled = [&](const SlotLayout& layout, const std::vector<uint32_t>& keys,
                              Matrix<const W> table) {
        const embedding::DeviceSlots slots(device.exec(), layout);
        const DeviceArray<uint32_t> all(device.ops(), keys);
        const DeviceArray<T> out(device.ops(), FarCase::kBatch * 2 * kFarWidth);
        lookup_forward(device.exec(), slots.ref(), table,
                       {all.data(), FarCase::kBatch, layout.keys.columns},
                       View<T, 3>(out.data(), FarCase::kBatch, 2, kFarWidth));
        return out.to_host(device.stream());
      };
      const auto got = pooled(x.far, x.far_keys, rows.matrix());
      CHECK(same_bits(
          got, pooled(x.near, x.near_keys, {few.data(), std::ssize(kFarPlaces), kFarWidth})));
      bool copies = x.places.size() == 2 * FarCase::kBatch;
      for (size_t i = 0; copies && i < got.size(); ++i)
        copies = to_float(got[i]) ==
                 to_float(from_float<T>(
                     to_float(values[x.places[i / kFarWidth] * kFarWidth + i % kFarWidth])));
      CHECK(copies == (hotness[0] == 1));
    }
  });
}

TEST_CASE("lookups find rows beyond 2^32 elements", "[gpu]") {
  check_far_lookups<float, float>();
  check_far_lookups<float, bf16>();
  check_far_lookups<bf16, bf16>();
}

template <typename W>
void check_far_updates() {
  on_far_rows<W>([](const CudaBackend& backend, const OnDevice& device, const FarMemory<W>& rows) {
    const FarMemory<float> states(backend);
    if (!states.data()) {
      WARN("no memory for states: " << backend.name << " is skipped");
      return;
    }
    const size_t n = kFarPlaces.size();
    const auto values = far_values<W>(n, 5);
    const std::vector<float> initial(n * kFarWidth, 0.25f);
    rows.put(values, device.stream());
    states.put(initial, device.stream());
    const DeviceArray<W> few(device.ops(), values);
    const DeviceArray<float> few_states(device.ops(), initial),
        rate(device.ops(), std::vector<float>{0.125f});
    const DeviceArray<int64_t> first_step(device.ops(), std::vector<int64_t>{1}),
        first_rows(device.ops(), std::vector<int64_t>{0, kFarTable});
    const DeviceArray<uint64_t> seeds(device.ops(), std::vector<uint64_t>{7, 8});
    const DeviceArray<uint32_t> places(device.ops(), kFarPlaces);
    const DeviceArray<optimizer::StepScalars> scalars(device.ops(), 1);
    embedding::RowNames names{.seeds = seeds.data(), .first_rows = first_rows.data(), .tables = 2};

    for (const auto& hotness : {std::vector<int64_t>{1, 1}, {2, 3}}) {
      const FarCase x(hotness);
      const DeviceArray<float> dout(device.ops(), far_values<float>(2 * FarCase::kBatch, 6));
      const auto update = [&](const SlotLayout& layout, const std::vector<uint32_t>& keys,
                              const embedding::UpdatedRows& to) {
        const embedding::DeviceSlots slots(device.exec(), layout);
        embedding::SparseUpdate step(
            device.exec(), slots.ref(),
            {.rule = {.type = OptimizerType::kAdaGrad}, .max_batch = FarCase::kBatch});
        const DeviceArray<uint32_t> all(device.ops(), keys);
        step.sort(device.exec(), {all.data(), FarCase::kBatch, layout.keys.columns}, rate.data(),
                  first_step.data(), scalars.data());
        step.update(device.exec(), View<const float, 3>(dout.data(), FarCase::kBatch, 2, kFarWidth),
                    to);
        device.ops().stream_synchronize(device.stream());
      };
      names.numbers = nullptr;
      update(x.far, x.far_keys, {.w = rows.matrix(), .state0 = states.matrix(), .names = names});
      names.numbers = places.data();
      const auto of_few = [&](auto* data) {
        return Matrix<std::remove_pointer_t<decltype(data)>>(data, std::ssize(kFarPlaces),
                                                             kFarWidth);
      };
      update(x.near, x.near_keys,
             {.w = of_few(few.data()), .state0 = of_few(few_states.data()), .names = names});
      const auto trained = rows.get(device.stream());
      CHECK(same_bits(trained, few.to_host(device.stream())));
      CHECK(!same_bits(trained, values));
      CHECK(same_bits(states.get(device.stream()), few_states.to_host(device.stream())));
    }
  });
}

TEST_CASE("the sparse update changes rows beyond 2^32 elements", "[gpu]") {
  check_far_updates<float>();
  check_far_updates<bf16>();
}

template <typename W>
void check_far_moves() {
  on_far_rows<W>([](const CudaBackend&, const OnDevice& device, const FarMemory<W>& rows) {
    const size_t n = kFarPlaces.size();
    const auto matrix = [&](auto* data) {
      return Matrix<std::remove_pointer_t<decltype(data)>>(data, static_cast<int64_t>(n),
                                                           kFarWidth);
    };
    const DeviceArray<uint32_t> places(device.ops(), kFarPlaces);
    const Vector<const uint32_t> listed(places.data(), static_cast<int64_t>(n));
    rows.put(std::vector<W>(n * kFarWidth), device.stream());

    const auto values = far_values<W>(n, 7);
    const DeviceArray<W> in(device.ops(), values), out(device.ops(), n * kFarWidth);
    embedding::kernels::scatter_rows(device.exec(), matrix(in.data()), listed, rows.matrix());
    CHECK(same_bits(rows.get(device.stream()), values));
    embedding::kernels::gather_rows(device.exec(), rows.matrix(), listed, matrix(out.data()));
    CHECK(same_bits(out.to_host(device.stream()), values));

    const DeviceArray<float> wide(device.ops(), n * kFarWidth);
    embedding::gather_requested(device.exec(), rows.matrix(), listed, nullptr, matrix(wide.data()));
    CHECK((wide.to_host(device.stream()) == widened(values)));
    if constexpr (std::is_same_v<W, float>) {
      const auto others = far_values<float>(n, 8);
      const DeviceArray<float> sums(device.ops(), others);
      const DeviceArray<uint32_t> count(device.ops(), std::vector<uint32_t>{10});
      embedding::scatter_scaled(
          device.exec(),
          {.in = matrix(sums.data()), .rows = listed, .count = count.data(), .out = rows.matrix()});
      CHECK(same_bits(rows.get(device.stream()), others));
    }
  });
}

TEST_CASE("rows beyond 2^32 elements are gathered and scattered", "[gpu]") {
  check_far_moves<float>();
  check_far_moves<bf16>();
}

}  // namespace
}  // namespace hlite::test
