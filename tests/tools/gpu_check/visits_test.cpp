// Rehearsals of visits to a card (tools/gpu_check.sh --visit), on an emulated GPU and with scripts in
// place of tools that need a real one.
#include <fmt/core.h>

#include "tests/tools/gpu_check/gpu_check_run.h"

namespace hlite::test {
namespace {

// Checks that the text holds all lines that begin so, in this order.
void check_begun_in_order(const std::string& text, const std::vector<std::string>& parts) {
  INFO(text);
  size_t at = 0;
  for (const auto& part : parts) {
    INFO("looked for: " << part);
    at = text.find("\n" + part, at);
    REQUIRE(at != std::string::npos);
    at += part.size();
  }
}

#ifdef HLITE_WITH_BENCH
// The programs of this build, with a gpu_probe, a train_bench that leaves a trace, and an ncu.
class Rehearsal : public GpuCheckRun {
 public:
  Rehearsal() {
    std::filesystem::create_directories(*this / "bin");
    for (const auto& entry : std::filesystem::directory_iterator(HLITE_PROGRAMS))
      if (entry.path().filename() != "train_bench" && entry.path().filename() != "gpu_probe")
        std::filesystem::create_symlink(entry.path(),
                                        *this / ("bin/" + entry.path().filename().string()));
    write_text(*this / "trace",
               R"lines({"kind":"trace","program":"train_bench","pid":1,"cupti":130001}
{"kind":"name","id":0,"name":"void hlite::copy_rows_kernel<float>(float*)"}
{"kind":"kernel","name":0,"start":1000,"end":9000,"device":0,"stream":7,"channel":3,"graph":1,"node":9,"launch":12,"grid":132,"block":256,"registers":32,"shared":0}
{"kind":"kernel","name":0,"start":11000,"end":19000,"device":0,"stream":7,"channel":3,"graph":1,"node":9,"launch":13,"grid":132,"block":256,"registers":32,"shared":0}
{"kind":"end","records":2,"dropped":0,"left_out":0}
)lines");
    if (!std::filesystem::exists(*this / "bin/libhlite_trace.so"))
      write_text(*this / "bin/libhlite_trace.so", "");
    script("bin", "train_bench",
           "if [ -n \"$HLITE_TRACE\" ]; then unset CUDA_INJECTION64_PATH; cp '" +
               (*this / "trace") +
               "' \"$HLITE_TRACE\"; fi\nexec " HLITE_PROGRAMS "/train_bench \"$@\"");
    script(
        "bin", "gpu_probe",
        "probe=$2; while [ $# -gt 0 ]; do case $1 in --json) json=$2 ;; esac; shift; done\n"
        "case $probe in P1) echo '{\"probe\":\"P1\",\"product\":\"dlrm.z2.bprop\",\"batch\":65536,"
        "\"epilogue\":\"DRELU\",\"sms\":0,\"us\":190}' >\"$json\" ;;\n"
        "*) echo '{\"probe\":\"P3\",\"chain\":\"graph\",\"blocks\":1,\"us_an_edge\":5}' >\"$json\" ;; esac");
    tool(
        "ncu",
        "while [ \"$1\" != --log-file ]; do shift; done\n"
        "cat >\"$2\" <<'END'\n"
        "==PROF== Connected\n"
        "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__throughput.avg.pct_of_peak_sustained_elapsed\","
        "\"lts__t_sectors.avg.pct_of_peak_sustained_elapsed\","
        "\"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio\","
        "\"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio\"\n"
        "\"\",\"\",\"ns\",\"%\",\"%\",\"\",\"\"\n"
        "\"0\",\"update_segments_kernel(int)\",\"235,100\",\"76.2\",\"51\",\"12.5\",\"1.25\"\n"
        "END");
  }
  [[nodiscard]] std::string rehearse(const std::string& visit) const {
    const auto result =
        run({"--bin", *this / "bin", "--plugin", HLITE_EMULATED_PLUGIN, "--small", "--files",
             "cuda_plugin_test", "--visit", visit, "--out", *this / "out"});
    INFO(result.out << result.err);
    CHECK(result.code == 0);
    return read_text(*this / "out/report.md");
  }
  void check_kept(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      INFO(name);
      CHECK((std::filesystem::exists(*this / ("out/" + name)) &&
             std::filesystem::file_size(*this / ("out/" + name)) > 0));
    }
  }
};

TEST_CASE("visit A is rehearsed to a complete report, with all its files", "[slow]") {
  const Rehearsal run;
  const std::string report = run.rehearse("A");
  check_begun_in_order(
      report,
      {"## GPU check, ",
       "- device: passed",
       "### gate",
       "- tests-list: passed",
       "- golden-dlrm_fused-bf16: passed",
       "### iterations",
       "- iteration-bf16-alpha-1.05: passed",
       "- iteration-tf32-alpha-1.05: passed",
       "| what | unit | before | predicted | seen | |",
       "| emb.update | us | 391 | 219 to 235 | - | not seen |",
       "### batches",
       "- iteration-bf16-batch-16: passed",
       "### dcnv2",
       "- dcnv2-AdaGrad-batch-8192: passed",
       "- dcnv2-RowWiseAdaGrad-batch-8192: passed",
       "### traces",
       "- trace-mlperf-65536: ",
       "### products",
       "- probe-P1: passed",
       "| z2.bprop with the ReLU's gradient alone | us | - | 185 to 192 | 190 | as predicted |",
       "### probes",
       "- probe-P2-to-P7: passed",
       "| an edge of a graph | us | - | 1.2 to 1.4 | 5 | above |",
       "### ncu",
       "- ncu-bf16: passed",
       "### tables",
       "- table: passed",
       "| bf16, tiny | Zipf 1.05",
       "Steps, bf16, tiny, batch 32, alpha 1.05",
       "| emb.update |",
       "Steps, bf16, tiny, RowWiseAdaGrad",
       "| update_segments_kernel | bf16 | 235.1 | - | 51 | 76 | - | long_scoreboard 12.5 |",
       "- kernels: passed"});
  CHECK(report.find(" take ") != std::string::npos);  // verdicts of epilogues
  run.check_kept(
      {"train_bench.jsonl", "matmul_algorithms.txt", "probe.jsonl", "ncu.csv", "logs.tar.gz"});
  if (std::filesystem::exists(HLITE_SOURCE_DIR "/tests/bench/trace/trace_report.py")) {
    check_begun_in_order(report, {"- trace-mlperf-65536: passed", "In place, mlperf, batch 65,536:",
                                  "| copy_rows_kernel | 1 | 8.0 | 8.0 |"});
    run.check_kept({"trace.jsonl.gz"});
  }
}

TEST_CASE("visit B is rehearsed to a complete report, with all its files", "[slow]") {
  const Rehearsal run;
  run.tool("compute-sanitizer",
           "while [ \"$1\" != --error-exitcode ]; do shift; done; shift 2; exec \"$@\"");
  const std::string report = run.rehearse("B");
  check_begun_in_order(report, {"### exchanges",
                                "- exchanges-2-ranks-alpha-1.05: passed",
                                "- collectives-2-ranks: passed",
                                "### hashed",
                                "- hashed-known-keys: passed",
                                "- hashed-new-keys: passed",
                                "### tiers",
                                "- row-transfer: passed",
                                "- uniform-keys: passed",
                                "- beyond-memory-uniform-keys: passed",
                                "### serving",
                                "- serving-1-to-1-samples: passed",
                                "- serving-1-to-512-samples: passed",
                                "### sanitized",
                                "- sanitizer-memcheck-cuda_plugin_test: passed",
                                "### nccl",
                                "- nccl-of-one-rank: ",
                                "### shared-gpu",
                                "- golden-dlrm_fused-4-captured-ranks: passed",
                                "- captured-ranks-of-one-gpu: ",
                                "### tables",
                                "- table: passed",
                                "| bf16, tiny, hashed | "});
  run.check_kept({"train_bench.jsonl", "exchange_bench.jsonl", "comm_bench.jsonl",
                  "serve_bench.jsonl", "row_transfer.txt", "logs.tar.gz"});
}

// Of the shapes that the predictions are of, with tables and batches of an emulated GPU's size.
TEST_CASE("each prediction of steps is of steps that the plans have", "[slow]") {
  const GpuCheckRun run;
  for (const char* shape : {"mlperf", "dcnv2"})
    run.script(
        "bin", shape,
        fmt::format(
            "HLITE_EMULATED_L2=0 exec {0}/train_bench --device cuda --shape {1} --precision bf16 --optimizer {2} --cap 100 "
            "--batch 1 --batches 1 --threads 2 --seconds 0 --step-seconds 0 "
            "--gemm-edge 8 --copy-bytes 4096 --no-eager --quiet",
            HLITE_PROGRAMS, shape, shape == std::string("dcnv2") ? "AdaGrad" : "SGD"));
  run.script("bin", "exchanges",
             "exec " HLITE_PROGRAMS
             "/exchange_bench --device cuda --shape mlperf --ranks 2 --cap 100 --batch 16 "
             "--alpha 1.05 --seconds 0");
  const auto checked = run_program(
      {"/usr/bin/env", "HLITE_CUDA_LIBRARY=" HLITE_EMULATED_PLUGIN,
       "XDG_CACHE_HOME=" + (run / "cache"), "python3", "-B", "-c",
       "import json, subprocess, sys; sys.path.insert(0, '" HLITE_SOURCE_DIR "/tools/gpu_check')\n"
       "import visits\n"
       "row = {name: json.loads(subprocess.check_output([sys.argv[1] + '/' + name]))\n"
       "       for name in ('mlperf', 'dcnv2', 'exchanges')}\n"
       "wanted = [p for p in visits.predictions() if p['value'].startswith('steps ')]\n"
       "assert wanted\n"
       "for p in wanted:\n"
       "    name = 'exchanges' if p['file'] == 'exchange_bench.jsonl' else p['where']['shape']\n"
       "    assert visits.value_of(row[name], p['value']) > 0, p\n",
       run / "bin"});
  INFO(checked.out << checked.err);
  CHECK(checked.code == 0);
}
#endif

TEST_CASE("a part of a visit that hangs or breaks costs its own time") {
  const GpuCheckRun run;
  run.script(
      "bin", "train",
      "case \"$*\" in *--check*) echo 'device memory, batch 1: a fake'; exit 0 ;; esac\nexit 1");
  run.script("bin", "train_bench", "echo started >>\"$STARTED\"; exec sleep 300");
  run.script("bin", "gpu_probe", "kill -SEGV $$");
  run.script("bin", "exchange_bench", "echo nonsense");
  // A clock that is an hour on, some looks after each start of what hangs.
  std::filesystem::create_directory(run / "clock");
  write_text(run / "clock/sitecustomize.py",
             "import os, time\n"
             "def clock(now):\n"
             "    path, looks, over, hours = os.environ['STARTED'], 0, 0, 0\n"
             "    def look():\n"
             "        nonlocal looks, over, hours\n"
             "        size = os.path.getsize(path) if os.path.exists(path) else 0\n"
             "        looks += size > over\n"
             "        if looks > 10:\n"
             "            looks, over, hours = 0, size, hours + 1\n"
             "        return now + 3600 * hours\n"
             "    return look\n"
             "time.monotonic = clock(time.monotonic())\n");
  const auto result =
      run.run({"--bin", run / "bin", "--visit", "A", "--out", run / "out", "--slow", "1"},
              {"STARTED=" + (run / "started"), "PYTHONPATH=" + (run / "clock")});
  INFO(result.out << result.err);
  CHECK(result.code == 1);
  check_begun_in_order(
      read_text(run / "out/report.md"),
      {"### gate", "### iterations", "- iteration-bf16-alpha-1.05: not run: ",
       "- iteration-tf32-alpha-1.05: not run: the 60 s of iterations are over", "### batches",
       "### dcnv2", "### traces", "### products", "- probe-P1: FAILED: ended by SIGSEGV",
       "### probes", "- probe-P2-to-P7: FAILED: ended by SIGSEGV", "### ncu", "### tables"});
}

TEST_CASE("each prediction is of a part that a visit has, and of a file that it writes") {
  const auto checked = run_program(
      {"/usr/bin/env", "python3", "-B", "-c",
       "import sys, types; sys.path.insert(0, '" HLITE_SOURCE_DIR "/tools/gpu_check')\n"
       "import visits\n"
       "parts = {part for visit in visits.VISITS.values() for part, _ in visit}\n"
       "assert parts == set(visits.PARTS), parts ^ set(visits.PARTS)\n"
       "for p in visits.predictions():\n"
       "    assert p['part'] in parts and p['file'] in visits.KEPT and len(p['predicted']) == 2, p\n"
       "    assert p['predicted'][0] <= p['predicted'][1] and p['where'], p\n"
       "for visit, plan in visits.VISITS.items():\n"
       "    assert sum(seconds for _, seconds in plan) <= 570, visit\n"
       "row = {'ms': 4, 'floor_ms': 3, 'train_steps': [{'name': 'z1.bprop', 'ms': 1}, {'name': "
       "'inter.bprop', 'ms': 2}]}\n"
       "assert visits.value_of(row, 'steps z?.bprop i*') == 3\n"
       "assert visits.value_of(row, 'floor_ms/ms') == 0.75\n"
       "said, failed = [], []\n"
       "checks = types.SimpleNamespace(line=said.append, fail=lambda name, why: failed.append(str(why)))\n"
       "visits.predictions = lambda: [{'part': 'p', 'what': what, 'file': 'f', 'where': {'ms': 4},\n"
       "    'value': 'steps ' + what, 'unit': 'ms', 'predicted': [1, 1]} for what in ('*.dbias', 'z1.*')]\n"
       "visits.read_numbers = lambda path: [row]\n"
       "visits.compare(types.SimpleNamespace(kept=str, checks=checks), 'p')\n"
       "assert '| *.dbias | ms | - | 1 | - | no such step |' in said, said\n"
       "assert '| z1.* | ms | - | 1 | 1 | as predicted |' in said, said\n"
       "assert failed == ['prediction of *.dbias: expected a step *.dbias, '\n"
       "    'found z1.bprop, inter.bprop'], failed\n"});
  INFO(checked.out << checked.err);
  CHECK(checked.code == 0);
}

}  // namespace
}  // namespace hlite::test
