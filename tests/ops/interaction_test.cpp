#include "hugectr_lite/ops/interaction.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
using test::random_values;
using test::span_of;
using test::widened;

struct DotShape {
  int64_t batch, slots, width;
};
const DotShape kDotShapes[] = {{0, 3, 4},    {1, 0, 1},   {3, 0, 16},  {2, 1, 1},    {5, 1, 3},
                               {4, 2, 7},    {3, 3, 8},   {2, 4, 33},  {3, 5, 24},   {65, 26, 16},
                               {9, 26, 128}, {7, 27, 13}, {2, 31, 40}, {1, 101, 56}, {1037, 2, 3}};

struct Inputs {
  std::vector<float> bottom, slots;
  explicit Inputs(const DotShape& s)
      : bottom(random_values(s.batch * s.width, 1)),
        slots(random_values(s.batch * s.slots * s.width, 2)) {}
};

// Element v of input r of sample b.
double input(const DotShape& s, const std::vector<double>& bottom, const std::vector<double>& slots,
             int64_t b, int64_t r, int64_t v) {
  return r == 0 ? bottom[static_cast<size_t>(b * s.width + v)]
                : slots[static_cast<size_t>((b * s.slots + r - 1) * s.width + v)];
}

std::vector<double> forward(const DotShape& s, const std::vector<double>& bottom,
                            const std::vector<double>& slots) {
  std::vector<double> out;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t v = 0; v < s.width; ++v) out.push_back(input(s, bottom, slots, b, 0, v));
    for (int64_t c = 1; c <= s.slots; ++c) {
      for (int64_t r = 0; r < c; ++r) {
        double dot = 0;
        for (int64_t v = 0; v < s.width; ++v)
          dot += input(s, bottom, slots, b, r, v) * input(s, bottom, slots, b, c, v);
        out.push_back(dot);
      }
    }
    out.push_back(0);
  }
  return out;
}

TEST_CASE("interaction_width counts bottom, pairs and the pad column") {
  CHECK(interaction_width(26, 128) == 480);
  CHECK(interaction_width(26, 16) == 368);
  CHECK(interaction_width(0, 5) == 6);
  CHECK(interaction_width(1, 1) == 3);
  CHECK(interaction_column(128, 0, 1) == 128);
  CHECK(interaction_column(128, 25, 26) == 478);
}

TEST_CASE("interaction_forward agrees with the definition") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const DotShape& s : kDotShapes) {
      CAPTURE(count, s.batch, s.slots, s.width);
      const Inputs in(s);
      const int64_t out_width = interaction_width(s.slots, s.width);
      std::vector<float> out(static_cast<size_t>(s.batch * out_width), NAN);
      interaction_forward(threads.exec(), {in.bottom.data(), s.batch, s.width},
                          {in.slots.data(), s.batch, s.slots, s.width},
                          {out.data(), s.batch, out_width});
      const auto want = forward(s, widened(in.bottom), widened(in.slots));
      const double magnitude = std::sqrt(static_cast<double>(s.width) / 9) + 1;
      test::check_close(span_of(out), span_of(want), {1e-6 * magnitude, 1e-6}, "out");
      for (int64_t b = 0; b < s.batch; ++b) {  // not only close: copied, and zero
        for (int64_t v = 0; v < s.width; ++v)
          REQUIRE(out[static_cast<size_t>(b * out_width + v)] ==
                  in.bottom[static_cast<size_t>(b * s.width + v)]);
        REQUIRE(out[static_cast<size_t>((b + 1) * out_width - 1)] == 0);
      }
    }
  }
}

// A table of `rows` rows for each slot, and keys into it; every fifth key is none.
struct Tables {
  std::vector<float> table;
  std::vector<int64_t> offset;
  std::vector<uint32_t> keys;

  explicit Tables(const DotShape& s) : table(random_values(s.slots * kRows * s.width, 5)) {
    for (int64_t slot = 0; slot < s.slots; ++slot) offset.push_back(slot * kRows);
    for (int64_t i = 0; i < s.batch * s.slots; ++i)
      keys.push_back(i % 5 == 4 ? kNoKey : static_cast<uint32_t>(i * 3 % kRows));
  }
  OneHotRows rows(const DotShape& s) const {
    return {{table.data(), s.slots * kRows, s.width},
            {offset.data(), s.slots},
            {keys.data(), s.batch, s.slots}};
  }
  // What a lookup gives, [B,n,V].
  std::vector<float> vectors(const DotShape& s) const {
    std::vector<float> all;
    for (int64_t i = 0; i < s.batch * s.slots; ++i)
      for (int64_t v = 0; v < s.width; ++v) {
        const uint32_t key = keys[static_cast<size_t>(i)];
        const int64_t row = offset[static_cast<size_t>(i % s.slots)] + key;
        all.push_back(key == kNoKey ? 0.0f : table[static_cast<size_t>(row * s.width + v)]);
      }
    return all;
  }
  static constexpr int64_t kRows = 7;
};

TEST_CASE("interaction_forward_gather gives the bits of lookup and interaction") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const DotShape& s : kDotShapes) {
      CAPTURE(count, s.batch, s.slots, s.width);
      const Inputs in(s);
      const Tables tables(s);
      const std::vector<float> vectors = tables.vectors(s);
      const int64_t out_width = interaction_width(s.slots, s.width);
      const auto size = static_cast<size_t>(s.batch * out_width);
      std::vector<float> want(size), out(size, NAN), kept(vectors.size(), NAN);
      const Matrix<const float> bottom(in.bottom.data(), s.batch, s.width);
      interaction_forward(threads.exec(), bottom, {vectors.data(), s.batch, s.slots, s.width},
                          {want.data(), s.batch, out_width});
      interaction_forward_gather(threads.exec(), bottom, tables.rows(s),
                                 {out.data(), s.batch, out_width},
                                 {kept.data(), s.batch, s.slots, s.width});
      CHECK((out == want));
      CHECK((kept == vectors));
      std::fill(out.begin(), out.end(), NAN);
      interaction_forward_gather(threads.exec(), bottom, tables.rows(s),
                                 {out.data(), s.batch, out_width}, {});
      CHECK((out == want));
    }
  }
}

TEST_CASE("interaction_backward agrees with the definition") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const DotShape& s : kDotShapes) {
      CAPTURE(count, s.batch, s.slots, s.width);
      const Inputs in(s);
      const int64_t out_width = interaction_width(s.slots, s.width);
      auto dout = random_values(s.batch * out_width, 3);
      const auto bottom = widened(in.bottom), slots = widened(in.slots);
      std::vector<double> want_bottom(bottom.size()), want_slots(slots.size());
      for (int64_t b = 0; b < s.batch; ++b) {
        const float* const d = &dout[static_cast<size_t>(b * out_width)];
        for (int64_t r = 0; r <= s.slots; ++r) {
          for (int64_t v = 0; v < s.width; ++v) {
            double sum = r == 0 ? static_cast<double>(d[v]) : 0.0;
            for (int64_t c = 0; c <= s.slots; ++c) {
              if (c == r) continue;
              const int64_t column = interaction_column(s.width, std::min(r, c), std::max(r, c));
              sum += static_cast<double>(d[column]) * input(s, bottom, slots, b, c, v);
            }
            if (r == 0)
              want_bottom[static_cast<size_t>(b * s.width + v)] = sum;
            else
              want_slots[static_cast<size_t>((b * s.slots + r - 1) * s.width + v)] = sum;
          }
        }
        dout[static_cast<size_t>((b + 1) * out_width - 1)] = NAN;  // the pad's is ignored
      }
      std::vector<float> dbottom(bottom.size(), NAN), dslots(slots.size(), NAN);
      interaction_backward(threads.exec(), {in.bottom.data(), s.batch, s.width},
                           {in.slots.data(), s.batch, s.slots, s.width},
                           {dout.data(), s.batch, out_width}, {dbottom.data(), s.batch, s.width},
                           {dslots.data(), s.batch, s.slots, s.width});
      const double magnitude = std::sqrt(static_cast<double>(s.slots) / 9) + 1;
      test::check_close(span_of(dbottom), span_of(want_bottom), {1e-6 * magnitude, 1e-6},
                        "dbottom");
      test::check_close(span_of(dslots), span_of(want_slots), {1e-6 * magnitude, 1e-6}, "dslots");
    }
  }
}

TEST_CASE("interaction gradients agree with finite differences") {
  test::Threads threads(1);
  const DotShape s{2, 4, 5};
  const Inputs in(s);
  const int64_t out_width = interaction_width(s.slots, s.width);
  const auto dout = random_values(s.batch * out_width, 3);
  std::vector<float> dbottom(in.bottom.size()), dslots(in.slots.size());
  interaction_backward(threads.exec(), {in.bottom.data(), s.batch, s.width},
                       {in.slots.data(), s.batch, s.slots, s.width},
                       {dout.data(), s.batch, out_width}, {dbottom.data(), s.batch, s.width},
                       {dslots.data(), s.batch, s.slots, s.width});
  std::vector<double> bottom = widened(in.bottom), slots = widened(in.slots);
  const auto objective = [&] {
    const auto out = forward(s, bottom, slots);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += static_cast<double>(dout[i]) * out[i];
    return sum;
  };
  const auto check = [&](std::vector<double>& values, const std::vector<float>& gradient) {
    for (size_t i = 0; i < values.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double value = values[i];
      values[i] = value + kStep;
      const double above = objective();
      values[i] = value - kStep;
      const double below = objective();
      values[i] = value;
      CAPTURE(i);
      CHECK(static_cast<double>(gradient[i]) ==
            Approx((above - below) / (2 * kStep)).margin(1e-6).epsilon(1e-5));
    }
  };
  check(bottom, dbottom);
  check(slots, dslots);
}

TEST_CASE("interaction_backward finds overflow in the slots' gradients") {
  test::Threads threads(2);
  const DotShape s{3, 4, 5};
  const int64_t out_width = interaction_width(s.slots, s.width);
  const auto found = [&](const Inputs& in, const std::vector<float>& dout) {
    std::vector<float> dbottom(in.bottom.size()), dslots(in.slots.size());
    int32_t flag = 0;
    interaction_backward(threads.exec(), {in.bottom.data(), s.batch, s.width},
                         {in.slots.data(), s.batch, s.slots, s.width},
                         {dout.data(), s.batch, out_width}, {dbottom.data(), s.batch, s.width},
                         {dslots.data(), s.batch, s.slots, s.width}, &flag);
    return flag;
  };
  Inputs in(s);
  auto dout = random_values(s.batch * out_width, 3);
  CHECK(found(in, dout) == 0);
  dout[static_cast<size_t>(2 * out_width)] = INFINITY;  // of the bottom vector alone
  CHECK(found(in, dout) == 0);
  in.slots.back() = 3e38f;
  dout[static_cast<size_t>(2 * out_width + interaction_column(s.width, 3, 4))] = 2;
  CHECK(found(in, dout) == 1);
}

TEST_CASE("interaction takes shapes in turn on one thread") {
  test::Threads threads(1);  // its workspace must follow every change of shape
  for (const DotShape& s :
       {DotShape{2, 26, 16}, DotShape{2, 3, 5}, DotShape{2, 26, 17}, DotShape{2, 26, 16}}) {
    const Inputs in(s);
    const int64_t out_width = interaction_width(s.slots, s.width);
    std::vector<float> out(static_cast<size_t>(s.batch * out_width));
    interaction_forward(threads.exec(), {in.bottom.data(), s.batch, s.width},
                        {in.slots.data(), s.batch, s.slots, s.width},
                        {out.data(), s.batch, out_width});
    const auto want = forward(s, widened(in.bottom), widened(in.slots));
    test::check_close(span_of(out), span_of(want), {1e-5, 0}, "out");
  }
}

TEST_CASE("interaction refuses shapes that do not fit") {
  test::Threads threads(1);
  std::vector<float> m(200);
  const Matrix<float> bottom(m.data(), 2, 4), out(m.data(), 2, interaction_width(3, 4));
  const View<float, 3> slots(m.data(), 2, 3, 4), narrow(m.data(), 2, 3, 3);
  CHECK_THROWS_AS(interaction_forward(threads.exec(), bottom, narrow, out), Error);
  CHECK_THROWS_AS(interaction_forward(threads.exec(), bottom, slots, bottom), Error);
  CHECK_THROWS_AS(interaction_backward(threads.exec(), bottom, slots, bottom, bottom, slots),
                  Error);
  CHECK_THROWS_AS(interaction_backward(threads.exec(), bottom, slots, out, out, slots), Error);
  CHECK_THROWS_AS(interaction_backward(threads.exec(), bottom, slots, out, bottom, narrow), Error);

  const Tables tables({2, 3, 4});
  const OneHotRows rows = tables.rows({2, 3, 4});
  const auto gather = [&](const OneHotRows& from, Matrix<float> to, View<float, 3> kept) {
    interaction_forward_gather(threads.exec(), bottom, from, to, kept);
  };
  gather(rows, out, slots);
  gather(rows, out, {});
  CHECK_THROWS_AS(gather(rows, bottom, slots), Error);
  CHECK_THROWS_AS(gather(rows, out, narrow), Error);
  CHECK_THROWS_AS(gather({{m.data(), 7, 3}, rows.offset, rows.keys}, out, slots), Error);
  CHECK_THROWS_AS(gather({rows.table, {rows.offset.data(), 2}, rows.keys}, out, slots), Error);
  CHECK_THROWS_AS(gather({rows.table, rows.offset, {rows.keys.data(), 1, 3}}, out, slots), Error);
}

}  // namespace
}  // namespace hlite::ops
