// Functions that the compiler calls for each access of code compiled with -fsanitize=thread.
#include <atomic>
#include <cstdint>

#include "tests/support/cuda_emulation/race_check.h"

using hlite::emulation::Access;
using hlite::emulation::note_access;

#define HLITE_CODE __builtin_return_address(0)
#define HLITE_HOOKS(bytes)                                                                         \
  void __tsan_read##bytes(void* p) { note_access(p, bytes, Access::kRead, HLITE_CODE); }           \
  void __tsan_write##bytes(void* p) { note_access(p, bytes, Access::kWrite, HLITE_CODE); }         \
  void __tsan_unaligned_read##bytes(void* p) { note_access(p, bytes, Access::kRead, HLITE_CODE); } \
  void __tsan_unaligned_write##bytes(void* p) {                                                    \
    note_access(p, bytes, Access::kWrite, HLITE_CODE);                                             \
  }                                                                                                \
  void __tsan_volatile_read##bytes(void* p) {                                                      \
    note_access(p, bytes, Access::kAtomicRead, HLITE_CODE);                                        \
  }                                                                                                \
  void __tsan_volatile_write##bytes(void* p) { note_access(p, bytes, Access::kAtomic, HLITE_CODE); }
#define HLITE_ATOMIC_HOOKS(bits)                                                                   \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {               \
    note_access(const_cast<const uint##bits##_t*>(p), sizeof(*p), Access::kAtomicRead,             \
                HLITE_CODE);                                                                       \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t value, int) {        \
    note_access(const_cast<const uint##bits##_t*>(p), sizeof(*p), Access::kAtomic, HLITE_CODE);    \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t* p, uint##bits##_t value, \
                                                 int) {                                            \
    note_access(const_cast<const uint##bits##_t*>(p), sizeof(*p), Access::kAtomic, HLITE_CODE);    \
    return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);                                         \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t value,  \
                                                int) {                                             \
    note_access(const_cast<const uint##bits##_t*>(p), sizeof(*p), Access::kAtomic, HLITE_CODE);    \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                        \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
HLITE_HOOKS(1)
HLITE_HOOKS(2)
HLITE_HOOKS(4)
HLITE_HOOKS(8)
HLITE_HOOKS(16)
void __tsan_read_range(void* p, unsigned long bytes) {
  note_access(p, bytes, Access::kRead, HLITE_CODE);
}
void __tsan_write_range(void* p, unsigned long bytes) {
  note_access(p, bytes, Access::kWrite, HLITE_CODE);
}
HLITE_ATOMIC_HOOKS(8)
HLITE_ATOMIC_HOOKS(32)
HLITE_ATOMIC_HOOKS(64)

}  // extern "C"
