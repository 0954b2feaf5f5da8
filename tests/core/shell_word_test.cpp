#include "hugectr_lite/core/shell_word.h"

#include "tests/support/catch.h"

namespace hlite {

TEST_CASE("words of a shell's command") {
  CHECK(shell_word("user_id") == "user_id");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$(rm)") == "'$(rm)'");
}

}  // namespace hlite
