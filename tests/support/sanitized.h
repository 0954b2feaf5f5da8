#pragma once

namespace hlite::test {

// Whether this build looks for errors of memory or threads, 10 to 30 times slower: what repeats the
// same steps many times for the sake of its numbers repeats them less often there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace hlite::test
