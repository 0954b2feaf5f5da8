// Loops compiled for several instruction sets, of which the best that the processor has runs: so a
// program built for many machines (HLITE_MARCH) is as fast on each as one built there.
//
//   wide([&] { for (int64_t i = 0; i < n; ++i) y[i] = relu(x[i]); });
//   wide([&]<int kLanes>() { ... });   where the code itself counts the floats of a register
//
// The body and all that it calls is compiled into a function for each set, so keep it to the loops.
// Results may differ between sets in their last bits (some multiply and add with one rounding), not
// from call to call.
#pragma once

#include <string_view>

namespace hlite {

// Each has what those before it have.
enum class InstructionSet { kBase, kAvx2, kAvx512 };

// The best of this processor, or what HLITE_INSTRUCTIONS in the environment names, if that is less:
// base, avx2 or avx512. Throws ConfigError where that is none of them. The same at every call.
InstructionSet instruction_set();
const char* name_of(InstructionSet set);
// Returns the set of a name in HLITE_INSTRUCTIONS. Throws ConfigError.
InstructionSet instruction_set_named(std::string_view name);

namespace detail {

template <int kLanes, typename Body>
[[gnu::always_inline]] inline void call(Body& body) {
  if constexpr (requires { body(); })
    body();
  else
    body.template operator()<kLanes>();
}

template <typename Body>
[[gnu::flatten, gnu::noinline]] void run_base(Body& body) {
  call<8>(body);
}

// Clang has none of these attributes' details; it is for fuzzing only.
#if defined(__x86_64__) && !defined(__clang__)
#define HLITE_WIDE_VARIANTS 1
template <typename Body>
[[gnu::target("avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,popcnt"), gnu::flatten, gnu::noinline]] void
run_avx2(Body& body) {
  call<8>(body);
}
template <typename Body>
[[gnu::target(
      "avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,"
      "prefer-vector-width=512"),
  gnu::flatten, gnu::noinline]] void
run_avx512(Body& body) {
  call<16>(body);
}
#endif

}  // namespace detail

template <typename Body>
void wide(Body&& body) {
#ifdef HLITE_WIDE_VARIANTS
  const InstructionSet set = instruction_set();
  if (set == InstructionSet::kAvx512) return detail::run_avx512(body);
#ifndef __AVX2__  // else the base has all of it
  if (set == InstructionSet::kAvx2) return detail::run_avx2(body);
#endif
#endif
  detail::run_base(body);
}

}  // namespace hlite
