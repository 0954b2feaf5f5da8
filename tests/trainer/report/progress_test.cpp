#include "hugectr_lite/trainer/report/progress.h"

#include <cmath>

#include "tests/support/catch.h"

namespace hlite::trainer {

TEST_CASE("durations are written as people read them") {
  CHECK(duration_text(0) == "0s");
  CHECK(duration_text(59.4) == "59s");
  CHECK(duration_text(61) == "1m01s");
  CHECK(duration_text(3725) == "1h02m");
  CHECK(duration_text(INFINITY) == "?");
}

TEST_CASE("the progress line says iteration, loss, AUC, rate, waiting share and time left") {
  ProgressState s;
  s.iter = 50;
  s.last_iter = 300;
  s.loss = 0.41;
  s.samples_per_s = 123456;
  s.wait_share = 0.015;
  s.eta_seconds = 75;
  CHECK(progress_text(s) == "iter 50/300  loss 0.41000  123.5 ksamples/s  wait 1.5%  ETA 1m15s");
  s.auc = 0.78;
  s.auc_iter = 40;
  s.may_end_early = true;
  CHECK(progress_text(s) ==
        "iter 50/300  loss 0.41000  evaluation AUC 0.78000 (iter 40)  123.5 ksamples/s  wait 1.5%  "
        "ETA at most 1m15s");
  s.watts = 605.4;
  s.celsius = 61;
  CHECK(progress_text(s).find("605 W  61 C  123.5 ksamples/s") != std::string::npos);
}

TEST_CASE("a run that waited for data hears how fast the data should have come") {
  CHECK(waiting_verdict(20, 5, 3'000'000'000, 8) ==
        "waited for data 25 % of the time: 150 MB/s came, 200 MB/s would have been used; decoding "
        "took 40 % of one core");
  CHECK(waiting_verdict(20, 2, 3'000'000'000, 8).empty());
  CHECK(waiting_verdict(5, 1, 3'000'000'000, 8).empty());  // the first batch alone may take that
  CHECK(waiting_verdict(0, 0, 0, 0).empty());
}

}  // namespace hlite::trainer
