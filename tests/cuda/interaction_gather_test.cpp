// The interaction of rows that are read from their tables, against a lookup and the interaction of
// what it gives.
#include <vector>

#include "tests/cuda/interaction_problem.h"

namespace hlite::test {
namespace {

using Case = InteractionCase;

// A problem whose slots' vectors are rows of tables, rounded to T; some samples have no key.
template <typename T>
struct Gather {
  InteractionProblem<T> problem;
  std::vector<float> table;
  std::vector<int64_t> offset;
  std::vector<uint32_t> keys;

  explicit Gather(const Case& size) : problem(size) {
    int64_t rows = 0;
    for (int64_t s = 0; s < size.slots; ++s) {
      offset.push_back(rows);
      rows += rows_of(s);
    }
    table = random_values<float>(rows * size.width, 4);
    for (int64_t b = 0; b < size.samples; ++b)
      for (int64_t s = 0; s < size.slots; ++s) {
        const uint64_t drawn = static_cast<uint64_t>(b * 31 + s * 17 + b * s);
        const bool none = (b + s) % 11 == 7;
        const auto key = static_cast<uint32_t>(drawn % static_cast<uint64_t>(rows_of(s)));
        keys.push_back(none ? kNoKey : key);
        for (int64_t v = 0; v < size.width; ++v)
          problem.input(b, s + 1, v) =
              from_float<T>(none ? 0.0f
                                 : table[static_cast<size_t>(
                                       (offset[static_cast<size_t>(s)] + key) * size.width + v)]);
      }
  }
  static int64_t rows_of(int64_t slot) { return 1 + slot * 5 % 7; }
};

template <typename T>
struct Gathered {
  std::vector<T> out, slots;
};

template <typename T>
Gathered<T> run_gather(const cuda::Backend& table, const Gather<T>& g, bool keep,
                       int64_t table_shift = 0) {
  const auto [B, n, V] = g.problem.size;
  const int64_t width = g.problem.size.out_width();
  const TestStream stream(table);
  const ShiftedArray<T> bottom(table, g.problem.bottom);
  const ShiftedArray<float> rows(table, g.table, table_shift);
  const ShiftedArray<int64_t> offset(table, g.offset);
  const ShiftedArray<uint32_t> keys(table, g.keys);
  const auto nans = [](size_t size) { return std::vector<T>(size, from_float<T>(NAN)); };
  const ShiftedArray<T> out(table, nans(static_cast<size_t>(B * width)));
  const ShiftedArray<T> slots(table, nans(g.problem.slots.size()));
  ops::interaction_forward_gather<T>(exec_on(table, stream), {bottom.data(), B, V},
                                     {{rows.data(), static_cast<int64_t>(g.table.size()) / V, V},
                                      {offset.data(), n},
                                      {keys.data(), B, n}},
                                     {out.data(), B, width},
                                     {keep ? slots.data() : nullptr, B, n, V});
  return {out.to_host(stream.get()), slots.to_host(stream.get())};
}

std::vector<Case> gathered_cases() {
  return {{0, 3, 16},  {3, 0, 16},  {1, 1, 1},   {3, 1, 16},  {3, 26, 33}, {2, 26, 128},
          {5, 26, 16}, {2, 63, 32}, {2, 64, 16}, {3, 15, 48}, {9, 3, 20}};
}

TEMPLATE_TEST_CASE("gathering interaction gives the bits of lookup and interaction", "", float,
                   bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : gathered_cases()) {
      INFO(size.text());
      const Gather<T> g(size);
      const std::vector<T> want = run_forward(*backend.table, g.problem);
      for (const bool keep : {true, false}) {
        const Gathered<T> got = run_gather(*backend.table, g, keep);
        CHECK(same_bits(got.out, want));
        if (keep) CHECK(same_bits(got.slots, g.problem.slots));
      }
    }
  }
}

TEMPLATE_TEST_CASE("gathering interaction takes a table at any address", "", float, bf16, fp16) {
  using T = TestType;
  const Case size{3, 26, 16};
  const Gather<T> g(size);
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const Gathered<T> got = run_gather(*backend.table, g, true, 1);
    compare(got.out, forward_oracle(g.problem), size);
    CHECK(same_bits(got.slots, g.problem.slots));
  }
}

TEMPLATE_TEST_CASE("gathering interaction gives the same bits in any order of threads", "", float,
                   bf16, fp16) {
  using T = TestType;
  for (const Case& size : {Case{3, 26, 33}, Case{3, 26, 32}}) {
    const Gather<T> g(size);
    const Gathered<T> want = run_gather(emulated_cuda(), g, true);
    for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 5);
      const Gathered<T> got = run_gather(emulated_cuda(), g, true);
      CHECK(same_bits(got.out, want.out));
      CHECK(same_bits(got.slots, want.slots));
    }
    emulation::set_order(emulation::Order::kForward);
  }
}

TEMPLATE_TEST_CASE("gathering interaction takes several samples a warp", "", float, bf16, fp16) {
  using T = TestType;
  const Gather<T> g({11, 4, 16});
  const auto [B, n, V] = g.problem.size;
  const int64_t width = g.problem.size.out_width();
  const auto run = [&, samples = B, slots = n, columns = V](int64_t max_blocks) {
    std::vector<T> out(static_cast<size_t>(samples * width)), kept(g.problem.slots.size());
    ops::kernels::interaction_forward_gather<T>(
        emulated_exec(), {g.problem.bottom.data(), samples, columns},
        {{g.table.data(), static_cast<int64_t>(g.table.size()) / columns, columns},
         {g.offset.data(), slots},
         {g.keys.data(), samples, slots}},
        {out.data(), samples, width}, {kept.data(), samples, slots, columns},
        {.max_blocks = max_blocks});
    CHECK(same_bits(kept, g.problem.slots));
    return out;
  };
  const std::vector<T> want = run(100);
  for (const auto order :
       {emulation::Order::kForward, emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 7);
    CHECK(same_bits(run(1), want));
    CHECK(same_bits(run(2), want));
  }
  emulation::set_order(emulation::Order::kForward);
}

}  // namespace
}  // namespace hlite::test
