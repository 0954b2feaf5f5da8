// What an error says is part of a contract: helpers to look at it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/support/catch.h"

namespace hlite::test {

// The message of the E that `action` throws; fails when it throws none.
template <typename E, typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  FAIL("expected an error, none was thrown");
  return "";
}

inline void check_contains(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    INFO("text: " << text);
    INFO("expected in it: " << part);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace hlite::test
