// The one include of Catch2. Only what Catch2 2.13 and 3 have in common is used.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
// Not all of it (catch_all.hpp), which takes longer to compile.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
