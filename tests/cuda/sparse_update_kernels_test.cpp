// The sparse update on the emulated device and, where there is one, on the GPU.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/sparse_update.h"
#include "embedding/table_sort.cuh"
#include "tests/cuda/embedding_device.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using embedding::Combiner;
using embedding::SparseUpdate;
using optimizer::OptimizerType;
using optimizer::UpdateRule;
using optimizer::UpdateType;

constexpr int64_t kSteps = 2;

float sparse_rate(int64_t step) { return 0.05f / static_cast<float>(step); }

struct How {
  UpdateRule rule;
  UpdateType type = UpdateType::kLocal;
  bool atomic = false;
  bool from_zero = false;
  bool lines = false;  // row r is line rows - 1 - r
};

struct TrainedTables {
  std::vector<float> table, state0, state1;
  bool operator==(const TrainedTables&) const = default;
};

// Tables and states of a case in device memory, and what updates them.
template <typename T>
class DeviceTables {
 public:
  DeviceTables(const OnDevice& device, const LookupCase& x, const How& how, int64_t max_batch)
      : device_(device),
        rows_(x.layout.total_rows),
        width_(x.layout.width),
        slots_(device.exec(), x.layout),
        update_(device.exec(), slots_.ref(), {how.rule, how.type, how.atomic, max_batch}),
        table_(device.ops(), x.table),
        state0_(device.ops(), x.state(how.rule, 0)),
        state1_(device.ops(), x.state(how.rule, 1)),
        rule_(how.rule.type),
        from_zero_(how.from_zero),
        line_of_(device.ops(), lines_of(how.lines ? rows_ : 0)),
        lines_{how.lines ? line_of_.data() : nullptr, static_cast<uint32_t>(rows_)},
        rate_(device.ops(), 1),
        step_(device.ops(), 1),
        scalars_(device.ops(), 1) {}

  // The gradients lie `shift` elements past an aligned address.
  void step(const LookupCase& x, float rate, int64_t step,
            const optimizer::GradientScale& scale = {}, size_t shift = 0) {
    const DeviceArray<uint32_t> keys(device_.ops(), x.keys);
    std::vector<T> gradients(shift);
    for (const float g : x.dout) gradients.push_back(from_float<T>(g));
    const DeviceArray<T> dout(device_.ops(), gradients);
    device_.ops().copy(rate_.data(), &rate, sizeof rate, device_.stream());
    device_.ops().copy(step_.data(), &step, sizeof step, device_.stream());
    update_.sort(device_.exec(), {keys.data(), x.batch, x.layout.keys.columns}, rate_.data(),
                 step_.data(), scalars_.data(), lines_);
    update_.update(device_.exec(),
                   View<const T, 3>(dout.data() + shift, x.batch, x.layout.slots(), width_),
                   {.w = {table_.data(), rows_, width_},
                    .state0 = matrix(state0_, 1),
                    .state1 = matrix(state1_, 2),
                    .from_zero = from_zero_},
                   scale);
    device_.ops().stream_synchronize(device_.stream());
  }
  [[nodiscard]] TrainedTables result() const {
    return {table_.to_host(device_.stream()), state0_.to_host(device_.stream()),
            state1_.to_host(device_.stream())};
  }

 private:
  static std::vector<uint32_t> lines_of(int64_t rows) {
    std::vector<uint32_t> lines;
    while (rows-- > 0) lines.push_back(static_cast<uint32_t>(rows));
    return lines;
  }
  [[nodiscard]] Matrix<float> matrix(const DeviceArray<float>& values, int least) const {
    if (optimizer::state_count(rule_) < least) return {};
    return {values.data(), rows_, optimizer::state_width(rule_, least - 1, width_)};
  }

  const OnDevice& device_;
  const int64_t rows_, width_;
  const embedding::DeviceSlots slots_;
  SparseUpdate update_;
  const DeviceArray<float> table_, state0_, state1_;
  const OptimizerType rule_;
  const bool from_zero_;
  const DeviceArray<uint32_t> line_of_;
  const embedding::LineOfRow lines_;
  const DeviceArray<float> rate_;
  const DeviceArray<int64_t> step_;
  const DeviceArray<optimizer::StepScalars> scalars_;
};

template <typename T>
TrainedTables train(const OnDevice& device, LookupCase x, const How& how) {
  DeviceTables<T> tables(device, x, how, x.batch);
  for (int64_t step = 1; step <= kSteps; ++step) {
    x.draw(static_cast<uint64_t>(step));
    tables.step(x, sparse_rate(step), step);
  }
  return tables.result();
}

// The definition: a dense gradient in double of what T holds, then the rule on all rows, or on
// those looked up.
template <typename T>
RuleOracle train_densely(LookupCase x, const How& how) {
  const int64_t width = x.layout.width;
  RuleOracle want(how.rule, x.table, width);
  for (int64_t step = 1; step <= kSteps; ++step) {
    x.draw(static_cast<uint64_t>(step));
    std::vector<double> gradient(x.table.size(), 0);
    std::vector<char> touched(static_cast<size_t>(x.layout.total_rows),
                              how.type == UpdateType::kGlobal);
    for (int64_t b = 0; b < x.batch; ++b)
      for (int64_t s = 0; s < x.layout.slots(); ++s) {
        const auto rows = x.rows_of(b, s);
        for (const int64_t row : rows) {
          touched[static_cast<size_t>(row)] = 1;
          for (int64_t j = 0; j < width; ++j) {
            const float g = to_float(from_float<T>(x.dout_view()(b, s, j)));
            gradient[static_cast<size_t>(row * width + j)] +=
                static_cast<double>(g) * x.weight(rows.size());
          }
        }
      }
    for (size_t row = 0; row < touched.size(); ++row)
      if (touched[row])
        want.step_row(static_cast<double>(sparse_rate(step)), step, row,
                      std::span(gradient).subspan(row * want.width, want.width));
  }
  return want;
}

// A hot row's gradient is the float sum of up to `batch` numbers below 1, good to some 1e-6 (and
// AdaGrad squares it); a lookup lost or counted twice is off by about 1.
constexpr Tolerance kTolerance{.absolute = 5e-6, .relative = 1e-5};

template <typename T>
void check_against_oracle(const OnDevice& device, const LookupCase& x, const How& how) {
  const TrainedTables got = train<T>(device, x, how);
  const RuleOracle want = train_densely<T>(x, how);
  const std::string what = fmt::format("{} rule {}, update {}", describe(x),
                                       static_cast<int>(how.rule.type), static_cast<int>(how.type));
  check_close<const float, const double>(got.table, want.w, kTolerance, what.c_str());
  if (!got.state0.empty())
    check_close<const float, const double>(got.state0, want.a, kTolerance, what.c_str());
  if (!got.state1.empty())
    check_close<const float, const double>(
        got.state1, want.b, {state1_tolerance(how.rule, kTolerance.absolute), kTolerance.relative},
        what.c_str());
}

TEST_CASE("the sparse update of a GPU equals a dense one, for every rule, update and type",
          "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const UpdateRule& rule : all_rules())
      for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal})
        for (const int64_t width : {3, 16}) {
          const LookupCase x({300, 3, 1, 257, 40}, width, 150);
          check_against_oracle<float>(device, x, {rule, type});
          check_against_oracle<bf16>(device, x, {rule, type});
          check_against_oracle<fp16>(device, x, {rule, type});
        }
  }
}

TEST_CASE("the sparse update of a GPU takes odd tables, widths and batches", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const UpdateRule& rule : {all_rules()[4], all_rules()[7], all_rules()[10]}) {
      for (const auto& rows : table_sizes())
        for (const int64_t width : {1, 4, 33, 128})
          for (const int64_t batch : {0, 1, 13, 64, 67})
            check_against_oracle<float>(device, {rows, width, batch}, {rule});
      check_against_oracle<bf16>(device, {{40, 7}, 264, 50}, {rule});
      check_against_oracle<fp16>(device, {std::vector<int64_t>(300, 2), 8, 3}, {rule});
    }
  }
}

TEST_CASE("the sparse update of a GPU takes several keys a slot", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const UpdateRule& rule : all_rules())
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
        const LookupCase x({400, 3, 40}, 8, 60, {4, 1, 20}, combiner);
        check_against_oracle<float>(device, x, {rule});
        check_against_oracle<bf16>(device, x, {rule, UpdateType::kGlobal});
      }
  }
}

TEST_CASE("the sparse update of a GPU takes slots that share tables", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const UpdateRule& rule : all_rules())
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
        const LookupCase x({90, 3, 90, 90}, 8, 60, {4, 1, 1, 20}, combiner, {0, 1, 0, 0});
        check_against_oracle<float>(device, x, {rule});
        check_against_oracle<bf16>(device, x, {rule, UpdateType::kGlobal});
      }
  }
}

// Sums of small whole numbers are exact in any order.
void make_whole(LookupCase& x) {
  for (size_t i = 0; i < x.dout.size(); ++i)
    x.dout[i] = static_cast<float>(random::word(21, 0, i) % 9) - 4;
  for (size_t i = 0; i < x.table.size(); ++i)
    x.table[i] = static_cast<float>(random::word(22, 0, i) % 9);
}

std::vector<float> whole_oracle(const LookupCase& x) {
  std::vector<float> table = x.table;
  const int64_t width = x.layout.width;
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t s = 0; s < x.layout.slots(); ++s)
      for (const int64_t row : x.rows_of(b, s))
        for (int64_t j = 0; j < width; ++j)
          table[static_cast<size_t>(row * width + j)] -= x.dout_view()(b, s, j);
  return table;
}

// Keys of one slot: `absent` missing ones, then row r lengths[r] times, every sum exact.
LookupCase runs_of(const std::vector<int64_t>& lengths, int64_t width, int64_t absent) {
  LookupCase x({static_cast<int64_t>(lengths.size())}, width, 0);
  x.keys.assign(static_cast<size_t>(absent), kNoKey);
  for (size_t row = 0; row < lengths.size(); ++row)
    x.keys.insert(x.keys.end(), static_cast<size_t>(lengths[row]), static_cast<uint32_t>(row));
  x.batch = static_cast<int64_t>(x.keys.size());
  x.dout.resize(static_cast<size_t>(x.batch * width));
  make_whole(x);
  return x;
}

TEST_CASE("segments of any length and place are summed exactly", "[gpu]") {
  // Lengths around the 64 pairs of a tile, in several levels of tiles.
  const std::vector<std::vector<int64_t>> runs = {{64, 64, 64},
                                                  {63, 2, 63, 1, 64, 1},
                                                  {1, 64, 128, 1, 192, 63},
                                                  {130, 1, 1, 1, 500, 3, 61, 67, 5, 1, 1, 190},
                                                  {1, 4095, 1, 4200, 2, 64, 64},
                                                  {9000},
                                                  std::vector<int64_t>(700, 1),
                                                  std::vector<int64_t>(150, 3),
                                                  std::vector<int64_t>(90, 65)};
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const auto& lengths : runs)
      for (const int64_t absent : {0, 1, 63}) {  // they do not count among the pairs
        const LookupCase x = runs_of(lengths, 4, absent);
        INFO(lengths.size() << " segments, the first of " << lengths[0]);
        DeviceTables<float> tables(device, x, {{}}, x.batch);
        tables.step(x, 1, 1);
        CHECK((tables.result().table == whole_oracle(x)));
        DeviceTables<float> sums(device, x, {.rule = {}, .from_zero = true}, x.batch);
        sums.step(x, 1, 1);
        CHECK((sums.result().table == whole_oracle(x.with_table(0))));
      }
  }
}

TEST_CASE("segments are summed exactly through several blocks of carried entries", "[gpu]") {
  // A warp takes 32 entries, of 16 tiles; a block 16 warps', of 16,384 lookups.
  const std::vector<std::vector<int64_t>> runs = {
      {16384, 1, 64},                                // one block, just
      {1, 16384, 2},                                 // two
      {16383, 1, 16385, 3, 1024, 1023, 1, 5, 2000},  // at blocks' edges
      {100, 40000, 63},                              // through a whole block and parts of two
      std::vector<int64_t>(400, 65)};                // every tile carries
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const auto& lengths : runs)
      for (const int64_t width : {33, 128}) {  // the first in two slices of columns
        const LookupCase x = runs_of(lengths, width, 7);
        DeviceTables<float> tables(device, x, {{}}, x.batch);
        tables.step(x, 1, 1);
        INFO(lengths.size() << " segments, the first of " << lengths[0] << ", width " << width);
        CHECK((tables.result().table == whole_oracle(x)));
      }
  }
}

// Rows of several slices, whose lookups are mainly of two rows: through all lists of carried sums.
TEST_CASE("a row-wise rule takes wide rows that cross tiles", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {33, 132})
      for (const size_t rule : {7, 10, 11})
        for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal})
          check_against_oracle<float>(device, {{2, 90}, width, 3000}, {all_rules()[rule], type});
  }
}

TEST_CASE("atomic_update adds every lookup's gradient", "[gpu]") {
  const How how{{}, UpdateType::kLocal, true};
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {1, 3, 16, 128, 264}) {
      LookupCase one_hot({300, 3, 1}, width, 31);
      make_whole(one_hot);
      DeviceTables<bf16> tables(device, one_hot, how, 31);
      tables.step(one_hot, 1, 1);
      CHECK((tables.result().table == whole_oracle(one_hot)));
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
        check_against_oracle<float>(device, {{300, 3, 1}, width, 31, {3, 1, 8}, combiner}, how);
    }
  }
}

TEST_CASE("sparse update kernels give the same bits in any order of threads") {
  const OnDevice device(emulated_cuda());
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
    for (const How& how : {How{all_rules()[3]}, How{all_rules()[3], UpdateType::kGlobal},
                           How{all_rules()[7]}, How{all_rules()[10], UpdateType::kGlobal}}) {
      const int64_t width = optimizer::is_row_wise(how.rule.type) ? 140 : 12;
      const LookupCase x({300, 1, 5}, width, 200, {2, 1, 3}, combiner);
      const TrainedTables want = train<bf16>(device, x, how);
      for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
        emulation::set_order(order, 5);
        CHECK((train<bf16>(device, x, how) == want));
      }
      emulation::set_order(emulation::Order::kForward);
    }
  }
}

// Clusters where a block has too little memory, and CUB where these have, too; then the widths must
// be of kernels that need none.
TEST_CASE(
    "tables trained on lists that blocks or clusters sort have the bits of those that CUB sorts") {
  const OnDevice device(emulated_cuda());
  const auto same = [&](const LookupCase& x, const How& how) {
    const int64_t part =
        x.batch * embedding::DeviceSlots(device.exec(), x.layout).ref().max_part_lookups();
    const auto by_blocks_of = [&](size_t bytes, unsigned blocks) {
      const int usual =
          std::exchange(emulation::machine().shared_bytes_optin, static_cast<int>(bytes));
      CHECK(embedding::gpu::table_sort_blocks(part, part) == blocks);
      TrainedTables trained = train<bf16>(device, x, how);
      emulation::machine().shared_bytes_optin = usual;
      return trained;
    };
    const size_t block = embedding::gpu::table_sort_bytes(part);
    const TrainedTables by_blocks = by_blocks_of(block, 1);
    CHECK((by_blocks == by_blocks_of(block - 1, embedding::gpu::kClusterBlocks)));
    CHECK((by_blocks == by_blocks_of(0, 0)));
    CHECK(by_blocks.table != x.table);
  };
  for (const How& how :
       {How{all_rules()[3]}, How{all_rules()[7]}, How{all_rules()[0]},
        How{.rule = all_rules()[3], .lines = true}, How{all_rules()[3], UpdateType::kGlobal}}) {
    LookupCase one_hot({300, 3, 1, 257, 40}, 12, 150);
    same(one_hot, how);
    same({{400, 3, 40}, 12, 60, {4, 1, 20}, Combiner::kMean}, how);
    same({{90, 3, 90, 90}, 12, 60, {4, 1, 1, 20}, Combiner::kSum, {0, 1, 0, 0}}, how);
    one_hot.layout.complete = false;  // some keys are absent
    same(one_hot, how);
  }
}

// Gradients of 16 bits that are aligned to 8 bytes only are not walked through by whole warps.
TEST_CASE("tiles of whole warps give the same bits as those of any lanes", "[gpu]") {
  const auto after = [](const OnDevice& device, const LookupCase& x, const How& how, auto type,
                        size_t shift) {
    DeviceTables<decltype(type)> tables(device, x, how, x.batch);
    for (int64_t step = 1; step <= kSteps; ++step)
      tables.step(x, sparse_rate(step), step, {}, shift);
    return tables.result();
  };
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const auto& [combiner, width] :
         {std::pair(Combiner::kSum, 128), std::pair(Combiner::kMean, 256)}) {
      // Absent keys, rows of one lookup and of hundreds, and a last tile that is not full.
      LookupCase x({700, 1, 5, 40}, width, 131, {2, 1, 3, 4}, combiner);
      // bf16 and fp16 hold them; another order of their sums has other bits.
      for (size_t i = 0; i < x.dout.size(); ++i) {
        const uint64_t word = random::word(31, 0, i);
        x.dout[i] =
            std::ldexp(static_cast<float>(word % 255) - 127, -static_cast<int>(word >> 8 & 7));
      }
      for (const UpdateRule& rule : all_rules()) {
        INFO(describe(x) << " rule " << static_cast<int>(rule.type));
        const How how{rule};
        const TrainedTables want = after(device, x, how, bf16{}, 4);
        CHECK((after(device, x, how, bf16{}, 0) == want));
        CHECK((after(device, x, how, fp16{}, 0) == want));
        CHECK((after(device, x, how, float{}, 0) == want));
      }
      const How from_zero{.rule = {}, .from_zero = true};
      CHECK((after(device, x, from_zero, bf16{}, 0) == after(device, x, from_zero, bf16{}, 4)));
    }
  }
}

TEST_CASE("tiles of whole warps race nowhere, in any order of threads") {
  const OnDevice device(emulated_cuda());
  for (const UpdateRule& rule : {all_rules()[0], all_rules()[7]}) {
    const LookupCase x({300, 1, 5}, 256, 90, {2, 1, 3}, Combiner::kMean);
    const How how{rule};
    const TrainedTables want = train<bf16>(device, x, how), wide = train<float>(device, x, how);
    for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 5);
      CHECK((train<bf16>(device, x, how) == want));
      CHECK((train<float>(device, x, how) == wide));
    }
    emulation::set_order(emulation::Order::kForward);
  }
}

TEST_CASE("the sparse update of a GPU takes partial batches after full ones, allocating nothing") {
  const OnDevice device(emulated_cuda());
  const LookupCase large({50, 3}, 8, 200), small({50, 3}, 8, 5);
  DeviceTables<float> tables(device, large, {{}}, 200), fresh(device, large, {{}}, 5);
  tables.step(small, 0.1f, 1);
  fresh.step(small, 0.1f, 1);
  CHECK((tables.result() == fresh.result()));
  const int blocks = emulation::machine().device_blocks;
  tables.step(large, 0.1f, 2);
  tables.step(small, 0.1f, 3);
  CHECK(emulation::machine().device_blocks == blocks);
  CHECK_THROWS_AS(fresh.step(large, 0.1f, 1), Error);
}

TEST_CASE("keys beyond their table change nothing in the sparse update") {
  for (const bool atomic : {false, true}) {
    const OnDevice device(emulated_cuda());
    LookupCase x({50, 3}, 8, 40);
    DeviceTables<float> tables(device, x, {.rule = {}, .atomic = atomic}, 40);
    for (uint32_t& key : x.keys) key = 1000;
    tables.step(x, 0.1f, 1);
    CHECK((tables.result().table == x.table));
  }
}

TEST_CASE("the sparse update of a GPU scales gradients back, and skips a step that asks for it",
          "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    const DeviceArray<float> inverse(device.ops(), std::vector<float>{1.0f / 1024});
    const DeviceArray<int32_t> skip(device.ops(), std::vector<int32_t>{0, 1});
    const LookupCase x({50, 3}, 8, 40);
    LookupCase scaled = x;
    for (float& g : scaled.dout) g *= 1024;
    for (const How& how : {How{all_rules()[0]}, How{all_rules()[3], UpdateType::kGlobal},
                           How{{}, UpdateType::kLocal, true}}) {
      const auto after = [&](const LookupCase& y, const optimizer::GradientScale& scale) {
        DeviceTables<fp16> tables(device, x, how, 40);
        tables.step(y, 0.1f, 1, scale);
        return tables.result();
      };
      const TrainedTables plain = after(x, {});
      const TrainedTables back = after(scaled, {.inverse = inverse.data(), .skip = skip.data()});
      check_close<const float, const float>(back.table, plain.table, kTolerance);
      for (const auto& none : {optimizer::GradientScale{inverse.data(), skip.data() + 1},
                               {inverse.data(), skip.data(), skip.data() + 1}}) {
        const TrainedTables skipped = after(scaled, none);
        CHECK((skipped.table == x.table));
        CHECK(std::all_of(skipped.state0.begin(), skipped.state0.end(),
                          [](float s) { return s == 0; }));
      }
    }
  }
}

TEST_CASE("the sparse update of a GPU refuses what it cannot do") {
  const OnDevice device(emulated_cuda());
  const LookupCase x({50, 3}, 8, 5);
  const embedding::DeviceSlots slots(device.exec(), x.layout);
  const auto make = [&](OptimizerType rule, UpdateType type, bool atomic, int64_t batch) {
    SparseUpdate(device.exec(), slots.ref(), {{.type = rule}, type, atomic, batch});
  };
  const auto sgd = OptimizerType::kSgd;
  const auto local = UpdateType::kLocal;
  CHECK_NOTHROW(make(sgd, local, true, 5));
  CHECK_THROWS_AS(make(sgd, UpdateType::kLazyGlobal, false, 5), Error);
  CHECK_THROWS_AS(make(OptimizerType::kAdam, local, true, 5), Error);
  check_contains(message_of<DeviceError>([&] { make(sgd, local, false, int64_t{1} << 30); }),
                 {"fewer than 2^31 lookups", "2147483648"});
}

}  // namespace
}  // namespace hlite::test
