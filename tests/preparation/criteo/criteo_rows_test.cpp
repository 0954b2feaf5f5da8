#include "hugectr_lite/preparation/criteo/criteo_rows.h"

#include "data_reader/criteo/criteo_record.h"
#include "tests/support/catch.h"

namespace hlite::prep {

TEST_CASE("rows without a label are shorter, and lack its column in Parquet files") {
  const auto whole = make_criteo_rows(0), unlabelled = make_criteo_rows(0, /*labelled=*/false);
  CHECK(whole->layout().columns() == criteo::kColumns);
  CHECK(unlabelled->layout().shortest_row == whole->layout().shortest_row - 2);
  CHECK(whole->text_form().names.front() == "label");
  const TextForm form = unlabelled->text_form();
  CHECK(form.names.size() == criteo::kDense + criteo::kSlots);
  CHECK(form.names.front() == "I1");
  CHECK(form.names[static_cast<size_t>(form.first_hexadecimal)] == "C1");
  CHECK(unlabelled->slot_name(25) == "C26");
}

}  // namespace hlite::prep
