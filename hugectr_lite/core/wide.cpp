#include "hugectr_lite/core/wide.h"

#include <algorithm>
#include <cstdlib>

#include "hugectr_lite/core/error.h"

namespace hlite {
namespace {

constexpr InstructionSet kSets[] = {InstructionSet::kBase, InstructionSet::kAvx2,
                                    InstructionSet::kAvx512};

InstructionSet processor() {
#ifdef HLITE_WIDE_VARIANTS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return InstructionSet::kAvx512;
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBase;
}

}  // namespace

const char* name_of(InstructionSet set) {
  constexpr const char* kNames[] = {"base", "avx2", "avx512"};
  return kNames[static_cast<int>(set)];
}

InstructionSet instruction_set_named(std::string_view name) {
  for (const InstructionSet set : kSets)
    if (name_of(set) == name) return set;
  raise<ConfigError>("HLITE_INSTRUCTIONS: expected base, avx2 or avx512, found \"{}\"", name);
}

InstructionSet instruction_set() {
  static const InstructionSet set = [] {
    const char* const wanted = std::getenv("HLITE_INSTRUCTIONS");
    return wanted ? std::min(processor(), instruction_set_named(wanted)) : processor();
  }();
  return set;
}

}  // namespace hlite
