// Embedding ops on the CPU in bf16 are those in float, rounded at the end: the same sums.
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/lookup.h"
#include "embedding/sparse_update.h"
#include "tests/embedding/lookup_case.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

using embedding::Combiner;

// One key a slot, always there; several, some missing, added or averaged.
std::vector<LookupCase> cases() {
  std::vector<LookupCase> all;
  for (const int64_t width : {1, 16, 33, 64})
    for (const int64_t batch : {0, 1, 7, 301}) {
      all.push_back({{1000, 3, 40}, width, batch});
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
        all.push_back({{1000, 3, 40}, width, batch, {3, 1, 12}, combiner});
    }
  return all;
}

template <typename T>
std::vector<T> look_up(const LookupCase& x, int threads) {
  ThreadPool pool(threads);
  const Exec exec{.pool = &pool};
  const int64_t slots = x.layout.slots(), width = x.layout.width;
  std::vector<T> out(static_cast<size_t>(x.batch * slots * width), from_float<T>(-5));
  const embedding::DeviceSlots of(exec, x.layout);
  embedding::lookup_forward<T>(exec, of.ref(), {x.table.data(), x.layout.total_rows, width},
                               x.keys_view(), {out.data(), x.batch, slots, width});
  return out;
}

// A step of the table, with gradients of T; the weights and states that it leaves.
template <typename T>
std::vector<float> update(const LookupCase& x, const std::vector<T>& dout,
                          const optimizer::UpdateRule& rule) {
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  std::vector<float> w = x.table;
  std::vector<float> a = x.state(rule, 0), b = x.state(rule, 1);
  const embedding::DeviceSlots of(exec, x.layout);
  embedding::SparseUpdate sparse(exec, of.ref(),
                                 {.rule = rule, .max_batch = x.batch, .threads = 2});
  optimizer::StepScalars scalars;
  const float rate = 0.1f, inverse = 0.25f;
  const int64_t step = 1;
  sparse.sort(exec, x.keys_view(), &rate, &step, &scalars);
  sparse.update<T>(exec, {dout.data(), x.batch, x.layout.slots(), x.layout.width},
                   {x.like_table(w), x.like_table(a), x.like_table(b)}, {.inverse = &inverse});
  w.insert(w.end(), a.begin(), a.end());
  w.insert(w.end(), b.begin(), b.end());
  return w;
}

TEST_CASE("lookup_forward in bf16 is that in float, rounded", "[threads]") {
  for (const LookupCase& x : cases())
    for (const int threads : {1, 3}) {
      INFO("width " << x.layout.width << ", batch " << x.batch << ", threads " << threads);
      CHECK(same_values(widened(look_up<bf16>(x, threads)), as<bf16>(look_up<float>(x, threads))));
    }
}

TEST_CASE("SparseUpdate takes gradients in bf16 as the floats that they are", "[threads]") {
  for (const LookupCase& x : cases())
    for (const optimizer::UpdateRule& rule :
         {all_rules()[0], all_rules()[4], all_rules()[7], all_rules()[10]}) {
      INFO("width " << x.layout.width << ", batch " << x.batch);
      const auto dout = rounded<bf16>(x.dout);
      CHECK(same_values(update<bf16>(x, dout, rule), update<float>(x, widened(dout), rule)));
    }
}

}  // namespace
}  // namespace hlite::test
