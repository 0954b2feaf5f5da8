// Kernels on tables in 16 bits, against the ops of the CPU bit for bit: on the emulated device and,
// where there is one, on the GPU.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/lookup.h"
#include "embedding/requested_rows.h"
#include "embedding/row_copies.h"
#include "embedding/row_rounding.h"
#include "embedding/sparse_update.h"
#include "embedding/table_key.h"
#include "tests/cuda/embedding_device.h"

namespace hlite::test {
namespace {

using embedding::Combiner;
using embedding::RowNames;
using embedding::RowRounding;
using embedding::TableRow;
using embedding::UpdatedRows;
using optimizer::OptimizerType;
using optimizer::UpdateRule;
using optimizer::UpdateType;

constexpr int64_t kNarrowSteps = 3;
constexpr uint64_t kNarrowSeed = 23;

// How kernels find out which row is whose.
enum class Named { kInOrder, kByNumber, kByKey, kByLine };

// Rules whose products are exact with gradients of few bits: processors that fuse a product and a sum
// and those that do not have the same results.
std::vector<UpdateRule> exact_rules() {
  std::vector<UpdateRule> rules;
  for (const OptimizerType type :
       {OptimizerType::kSgd, OptimizerType::kMomentum, OptimizerType::kNesterov,
        OptimizerType::kAdaGrad, OptimizerType::kRowWiseAdaGrad, OptimizerType::kAdam,
        OptimizerType::kAdamW, OptimizerType::kRowWiseAdam}) {
    UpdateRule rule{.type = type};
    rule.momentum = rule.beta1 = rule.beta2 = 0.5;
    rule.epsilon = 0x1p-10;
    rule.initial_accumulator = 0.25;
    rules.push_back(rule);
  }
  return rules;
}

struct NarrowTables {
  std::vector<uint16_t> table;
  std::vector<float> state0, state1;
  bool operator==(const NarrowTables&) const = default;
};

// A layer's tables in W, which table and key each row is named after, and their states.
template <typename W>
class NarrowCase {
 public:
  // `scale`: of weights and gradients, a power of two.
  NarrowCase(LookupCase x, const UpdateRule& rule, UpdateType type, Named named, float scale = 1)
      : x_(std::move(x)), rule_(rule), type_(type), named_(named), scale_(scale) {
    for (float& w : x_.table) w *= scale_;
    for (int64_t row = 0; row < rows(); ++row) {
      // A permutation of the rows, so that none is named after its place.
      const int64_t number = named == Named::kInOrder ? row : (row * 7 + 3) % rows();
      numbers_.push_back(static_cast<uint32_t>(number));
      const TableRow of = name_of(row);
      keys_.push_back(embedding::table_key(of.table, of.key));
    }
  }

  [[nodiscard]] NarrowTables on_cpu() {
    ThreadPool pool(2);
    const Exec exec{.pool = &pool};
    const embedding::DeviceSlots slots(exec, x_.layout);
    embedding::SparseUpdate update(
        exec, slots.ref(), {.rule = rule_, .type = type_, .max_batch = x_.batch, .threads = 2});
    std::vector<W> table = from_floats<W>(x_.table);
    std::vector<float> state0 = x_.state(rule_, 0), state1 = x_.state(rule_, 1);
    UpdatedRows rows{.w = {table.data(), this->rows(), width()},
                     .state0 = state(state0.data(), 0),
                     .state1 = state(state1.data(), 1),
                     .rounding = &rounding_};
    optimizer::StepScalars scalars;
    for (int64_t step = 1; step <= kNarrowSteps; ++step) {
      draw(step);
      const float rate = rate_of(step);
      update.sort(exec, x_.keys_view(), &rate, &step, &scalars);
      update.update(exec, x_.dout_view(), rows);
    }
    return {bits_of(table), state0, state1};
  }

  template <typename T>
  [[nodiscard]] NarrowTables on(const OnDevice& device) {
    const embedding::DeviceSlots slots(device.exec(), x_.layout);
    embedding::SparseUpdate update(device.exec(), slots.ref(),
                                   {.rule = rule_, .type = type_, .max_batch = x_.batch});
    const DeviceArray<W> table(device.ops(), from_floats<W>(x_.table));
    const DeviceArray<float> state0(device.ops(), x_.state(rule_, 0)),
        state1(device.ops(), x_.state(rule_, 1)), rate(device.ops(), 1);
    const DeviceArray<int64_t> step(device.ops(), 1);
    const DeviceArray<optimizer::StepScalars> scalars(device.ops(), 1);
    const Names names(device, *this);
    const UpdatedRows rows{.w = {table.data(), this->rows(), width()},
                           .state0 = state(state0.data(), 0),
                           .state1 = state(state1.data(), 1),
                           .names = names.ref};
    for (int64_t s = 1; s <= kNarrowSteps; ++s) {
      draw(s);
      const float r = rate_of(s);
      const DeviceArray<uint32_t> keys(device.ops(), x_.keys);
      const DeviceArray<T> dout(device.ops(), from_floats<T>(x_.dout));
      device.ops().copy(rate.data(), &r, sizeof r, device.stream());
      device.ops().copy(step.data(), &s, sizeof s, device.stream());
      update.sort(device.exec(), {keys.data(), x_.batch, x_.layout.keys.columns}, rate.data(),
                  step.data(), scalars.data());
      update.update(device.exec(),
                    View<const T, 3>(dout.data(), x_.batch, x_.layout.slots(), width()), rows);
      device.ops().stream_synchronize(device.stream());
    }
    return {bits_of(table.to_host(device.stream())), state0.to_host(device.stream()),
            state1.to_host(device.stream())};
  }

  // update_rows() of all rows that are marked.
  [[nodiscard]] NarrowTables all_rows(const Exec& exec, const OnDevice* device) {
    ThreadPool pool(2);
    const std::vector<float> gradients(x_.table.size(), 0.0625f);
    std::vector<float> marks(static_cast<size_t>(rows()));
    for (size_t i = 0; i < marks.size(); ++i) marks[i] = i % 3 == 1 ? 0.0f : 1.0f;
    std::vector<W> table = from_floats<W>(x_.table);
    std::vector<float> state0 = x_.state(rule_, 0), state1 = x_.state(rule_, 1);
    const float rate = 0.125f;
    const int64_t step = (int64_t{1} << 33) + 5;
    embedding::RowsUpdateArgs args{.rule = rule_};
    if (!device) {
      args.lr = &rate;
      args.step = &step;
      args.gradients = gradients.data();
      args.touched = marks.data();
      args.rows = {.w = {table.data(), rows(), width()},
                   .state0 = state(state0.data(), 0),
                   .state1 = state(state1.data(), 1),
                   .rounding = &rounding_};
      embedding::update_rows({.pool = &pool}, args);
      return {bits_of(table), state0, state1};
    }
    const DeviceArray<W> there(device->ops(), table);
    const DeviceArray<float> s0(device->ops(), state0), s1(device->ops(), state1),
        g(device->ops(), gradients), m(device->ops(), marks),
        r(device->ops(), std::vector<float>{rate});
    const DeviceArray<int64_t> n(device->ops(), std::vector<int64_t>{step});
    const Names names(*device, *this);
    args.lr = r.data();
    args.step = n.data();
    args.gradients = g.data();
    args.touched = m.data();
    args.rows = {.w = {there.data(), rows(), width()},
                 .state0 = state(s0.data(), 0),
                 .state1 = state(s1.data(), 1),
                 .names = names.ref};
    embedding::update_rows(exec, args);
    return {bits_of(there.to_host(device->stream())), s0.to_host(device->stream()),
            s1.to_host(device->stream())};
  }

 private:
  struct Names {
    Names(const OnDevice& device, const NarrowCase& of)
        : seeds(device.ops(), of.rounding_.seeds()),
          first_rows(device.ops(), std::vector<int64_t>(of.x_.layout.table_offset.begin(),
                                                        of.x_.layout.table_offset.end())),
          numbers(device.ops(), of.numbers_),
          keys(device.ops(), of.keys_) {
      ref = {.seeds = seeds.data(),
             .first_rows = first_rows.data(),
             .tables = static_cast<int32_t>(of.x_.layout.tables())};
      if (of.named_ == Named::kByNumber) ref.numbers = numbers.data();
      if (of.named_ == Named::kByKey)
        ref.keys = reinterpret_cast<const unsigned long long*>(keys.data());
      if (of.named_ == Named::kByLine) ref.row_of_line = numbers.data();
    }
    const DeviceArray<uint64_t> seeds;
    const DeviceArray<int64_t> first_rows;
    const DeviceArray<uint32_t> numbers;
    const DeviceArray<uint64_t> keys;
    RowNames ref;
  };

  [[nodiscard]] int64_t rows() const { return x_.layout.total_rows; }
  [[nodiscard]] int64_t width() const { return x_.layout.width; }
  [[nodiscard]] TableRow name_of(int64_t row) const {
    const int64_t number = numbers_[static_cast<size_t>(row)];
    int64_t table = 0;
    while (table + 1 < x_.layout.tables() &&
           x_.layout.table_offset[static_cast<size_t>(table + 1)] <= number)
      ++table;
    return {table,
            static_cast<uint32_t>(number - x_.layout.table_offset[static_cast<size_t>(table)])};
  }
  [[nodiscard]] Matrix<float> state(float* values, int index) const {
    if (optimizer::state_count(rule_.type) <= index) return {};
    return {values, rows(), optimizer::state_width(rule_.type, index, width())};
  }
  static float rate_of(int64_t step) { return std::ldexp(1.0f, -static_cast<int>(step) - 3); }
  void draw(int64_t step) {
    x_.draw(static_cast<uint64_t>(step));
    for (float& g : x_.dout) g = std::round(g * 16) / 16 * scale_;
  }
  static std::vector<uint16_t> bits_of(const std::vector<W>& values) {
    std::vector<uint16_t> bits;
    for (const W v : values) bits.push_back(v.bits);
    return bits;
  }

  LookupCase x_;
  const UpdateRule rule_;
  const UpdateType type_;
  const Named named_;
  const float scale_;
  std::vector<uint32_t> numbers_;
  std::vector<uint64_t> keys_;
  const RowRounding rounding_{kNarrowSeed, "emb", x_.layout.tables(),
                              [this](int64_t row) { return name_of(row); }};
};

template <typename W>
void check_narrow(const OnDevice& device, const LookupCase& x, const UpdateRule& rule,
                  UpdateType type, Named named, float scale = 1) {
  INFO(describe(x) << " rule " << static_cast<int>(rule.type) << ", type " << static_cast<int>(type)
                   << ", named " << static_cast<int>(named) << ", times " << scale);
  const auto narrow = [&] { return NarrowCase<W>(x, rule, type, named, scale); };
  const NarrowTables want = narrow().on_cpu();
  CHECK((narrow().template on<float>(device) == want));
  CHECK((narrow().template on<bf16>(device) == want));
  CHECK((narrow().template on<fp16>(device) == want));
}

}  // namespace

TEMPLATE_TEST_CASE("rows of 16 bits are updated to the CPU's bits by each rule", "[gpu]", bf16,
                   fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const UpdateRule& rule : exact_rules())
      for (const int64_t width : {1, 3, 8, 20, 128}) {
        // Keys that are absent, and rows that cross tiles.
        const LookupCase x({300, 1, 5}, width, 97, {2, 1, 3});
        check_narrow<TestType>(device, x, rule, UpdateType::kLocal, Named::kInOrder);
        check_narrow<TestType>(device, x, rule, UpdateType::kGlobal, Named::kByKey);
        // Subnormal numbers of fp16.
        if (width == 20)
          check_narrow<TestType>(device, x, rule, UpdateType::kLocal, Named::kInOrder, 0x1p-16f);
      }
  }
}

TEMPLATE_TEST_CASE("rows of 16 bits are rounded by their table and key, however they are named",
                   "[gpu]", bf16, fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const Named named : {Named::kInOrder, Named::kByNumber, Named::kByKey, Named::kByLine})
      for (const int64_t width : {4, 7, 256})
        for (const int64_t batch : {0, 1, 61})
          check_narrow<TestType>(device, LookupCase({40, 3, 1, 17}, width, batch), exact_rules()[0],
                                 UpdateType::kLocal, named);
    // All lookups are of few rows: through all lists of carried sums.
    for (const int64_t width : {12, 128})
      check_narrow<TestType>(device, LookupCase({2, 90}, width, 3001), exact_rules()[5],
                             UpdateType::kLocal, Named::kByNumber);
  }
}

TEMPLATE_TEST_CASE("rows of 16 bits whose gradients are complete are updated to the CPU's bits",
                   "[gpu]", bf16, fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const UpdateRule& rule : exact_rules())
      for (const int64_t width : {1, 4, 31, 128}) {
        NarrowCase<TestType> x(LookupCase({101, 2}, width, 1), rule, UpdateType::kLocal,
                               Named::kByNumber);
        CHECK((x.all_rows(device.exec(), &device) == x.all_rows({}, nullptr)));
      }
  }
}

TEMPLATE_TEST_CASE("lookups in tables of 16 bits have the CPU's bits", "[gpu]", bf16, fp16) {
  ThreadPool pool(2);
  const auto check = [&]<typename T>(const OnDevice& device, const LookupCase& x, size_t shift) {
    INFO(describe(x) << " shift " << shift);
    const embedding::DeviceSlots host({.pool = &pool}, x.layout), slots(device.exec(), x.layout);
    std::vector<TestType> table(shift);
    for (const float w : x.table) table.push_back(from_float<TestType>(w));
    std::vector<T> want(x.dout.size());
    const auto look_up = [&](const Exec& exec, const embedding::SlotsRef& of, const TestType* rows,
                             const uint32_t* keys, T* out) {
      lookup_forward<T>(exec, of, Matrix<const TestType>(rows, x.layout.total_rows, x.layout.width),
                        {keys, x.batch, x.layout.keys.columns},
                        View<T, 3>(out, x.batch, x.layout.slots(), x.layout.width));
    };
    look_up({.pool = &pool}, host.ref(), table.data() + shift, x.keys.data(), want.data());
    const DeviceArray<TestType> there(device.ops(), table);
    const DeviceArray<uint32_t> keys(device.ops(), x.keys);
    const DeviceArray<T> out(device.ops(), want.size());
    look_up(device.exec(), slots.ref(), there.data() + shift, keys.data(), out.data());
    const std::vector<T> got = out.to_host(device.stream());
    bool same = got.size() == want.size();
    for (size_t i = 0; same && i < want.size(); ++i) same = to_float(got[i]) == to_float(want[i]);
    CHECK(same);
  };
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {1, 3, 4, 8, 12, 16, 33, 128, 264})
      for (const int64_t batch : {0, 1, 53})
        for (const size_t shift : {0, 1, 4})
          for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
            for (const std::vector<int64_t>& hotness :
                 {std::vector<int64_t>{}, std::vector<int64_t>{2, 1, 7}}) {
              if (hotness.empty() && combiner == Combiner::kMean) continue;
              const LookupCase x({1000, 3, 40}, width, batch, hotness, combiner);
              check.template operator()<float>(device, x, shift);
              check.template operator()<bf16>(device, x, shift);
            }
  }
}

TEMPLATE_TEST_CASE("rows of 16 bits are gathered, widened and copied exactly", "[gpu]", bf16,
                   fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const int64_t width : {1, 4, 13, 64}) {
      std::vector<float> values(static_cast<size_t>(11 * width));
      std::iota(values.begin(), values.end(), 1.0f);
      for (float& v : values) v = to_float(from_float<TestType>(v));
      const std::vector<uint32_t> from = {3, 10, kNoKey, 0, 7};
      const DeviceArray<TestType> table(device.ops(), from_floats<TestType>(values));
      const DeviceArray<uint32_t> rows(device.ops(), from),
          known(device.ops(), std::vector<uint32_t>{9, 2});
      const DeviceArray<float> out(device.ops(),
                                   std::vector<float>(static_cast<size_t>(5 * width), -1));
      embedding::gather_requested(device.exec(), Matrix<const TestType>(table.data(), 11, width),
                                  {rows.data(), 5}, nullptr, {out.data(), 5, width});
      const std::vector<float> got = out.to_host(device.stream());
      bool same = true;
      for (size_t i = 0; i < got.size(); ++i) {
        const size_t w = static_cast<size_t>(width), row = from[i / w];
        same &= got[i] == (row == kNoKey ? -1 : values[row * w + i % w]);
      }
      CHECK(same);
      const DeviceArray<TestType> two(device.ops(), static_cast<size_t>(2 * width)),
          to(device.ops(), from_floats<TestType>(values));
      embedding::kernels::gather_rows(device.exec(), Matrix<TestType>(table.data(), 11, width),
                                      {known.data(), 2}, Matrix<TestType>(two.data(), 2, width));
      const DeviceArray<uint32_t> places(device.ops(), std::vector<uint32_t>{0, 1});
      embedding::kernels::scatter_rows(device.exec(), Matrix<TestType>(two.data(), 2, width),
                                       {places.data(), 2}, Matrix<TestType>(to.data(), 11, width));
      std::vector<float> want = values;
      std::copy_n(values.begin() + 9 * width, width, want.begin());
      std::copy_n(values.begin() + 2 * width, width, want.begin() + width);
      std::vector<float> copied;
      for (const TestType v : to.to_host(device.stream())) copied.push_back(to_float(v));
      CHECK((copied == want));
    }
  }
}

}  // namespace hlite::test
