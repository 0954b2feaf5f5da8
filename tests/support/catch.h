// The one include of Catch2. Only macros common to Catch2 2.13 and 3 are used.
#pragma once

#include <catch2/catch.hpp>
