#include "hugectr_lite/trainer/report/run_record.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::trainer {
namespace {

using Iterations = std::vector<int64_t>;

// Keeps the iterations of evaluations; cannot write the one of `fails_at`.
class RecordedEvaluations : public RunRecord {
 public:
  explicit RecordedEvaluations(Iterations& seen, int64_t fails_at = -1)
      : seen_(seen), fails_at_(fails_at) {}
  void eval_begins(int64_t iter) override {
    if (iter == fails_at_) raise<FileError>("m.json: no space, at {}", iter);
    seen_.push_back(iter);
  }

 private:
  Iterations& seen_;
  int64_t fails_at_;
};

}  // namespace

TEST_CASE(
    "a record that cannot be written ends alone, with a warning, and is reported at the end") {
  Iterations first, lost, last;
  RunRecords records;
  records.add(std::make_unique<RecordedEvaluations>(first));
  records.add(std::make_unique<RecordedEvaluations>(lost, 2));
  records.add(std::make_unique<RecordedEvaluations>(last));
  const test::LogCapture log;
  records.notify(&RunRecord::eval_begins, int64_t{1});
  CHECK_FALSE(records.lost_any());
  CHECK(log.text().empty());
  for (const int64_t iter : {2, 3}) records.notify(&RunRecord::eval_begins, iter);
  CHECK(records.lost_any());
  CHECK(first == Iterations{1, 2, 3});
  CHECK(lost == Iterations{1});
  CHECK(last == Iterations{1, 2, 3});
  test::check_contains(log.text(),
                       {"m.json: no space, at 2; the run goes on without it, and exits with 3"});
}

TEST_CASE("what is no file's fault ends the run") {
  class Broken : public RunRecord {
    void failed(const std::string&) override { raise("a bug"); }
  };
  RunRecords records;
  records.add(std::make_unique<Broken>());
  CHECK_THROWS_WITH(records.notify(&RunRecord::failed, std::string("why")), "a bug");
  CHECK_FALSE(records.lost_any());
}

}  // namespace hlite::trainer
