// tools/gpu_check.sh with the real programs on an emulated GPU; its arguments; archives.
#include "tests/tools/gpu_check/gpu_check_run.h"

namespace hlite::test {
namespace {

// Checks that the text holds all parts in this order.
void check_in_order(const std::string& text, const std::vector<std::string>& parts) {
  INFO(text);
  size_t at = 0;
  for (const auto& part : parts) {
    INFO("looked for: " << part);
    at = text.find(part, at);
    REQUIRE(at != std::string::npos);
    at += part.size();
  }
}

TEST_CASE("a GPU check goes through all its parts to a complete report", "[slow]") {
  const GpuCheckRun run;
  run.tool(
      "compute-sanitizer",
      "echo '========= COMPUTE-SANITIZER'; echo '========= Error: Device not supported'; exit 1");
  const auto result = run.run(
      {"--bin", HLITE_PROGRAMS, "--plugin", HLITE_EMULATED_PLUGIN, "--small", "--files",
       "activation_test,cuda_plugin_test", "--out", run / "out", "--results", run / "results.md"},
      {std::string("HLITE_NVML_LIBRARY=") + HLITE_FAKE_NVML_LIBRARY,
       "HLITE_FAKE_NVML=power=612000 clock=1980 temperature=61 reasons=4"});
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  const std::string report = read_text(run / "out/report.md");
  check_in_order(
      report,
      {"## GPU check, ",
       "- kernel: Linux ",
       "- driver: no nvidia-smi",
       "- nvcc: ",
       "- cuBLASLt: ",
       "- /dev/shm: ",
       "- GPU: emulated device",
       "- commit: ",
       "- device: passed",
       "### golden",
       "- golden-dlrm_plain: passed",
       "losses within ",
       "- golden-dlrm_plain-without-graph: passed",
       "- golden-dlrm_plain-same-bits-with-and-without-graph: passed",
       "- golden-dlrm_plain-bf16: passed",
       "- golden-dlrm_plain-fp16: passed",
       "- golden-dlrm_fused: passed",
       "### tests",
       "- tests-list: passed",
       "2 files",
       "- tests-cuda_plugin_test: passed",
       "- tests-activation_test: passed",
       "### bench",
       "- train_bench-bf16-alpha-1.05-batch-32: ",
       "- embedding-cap-100-alpha-0: ",
       "- collectives-2-ranks: ",
       "- exchanges-2-ranks-alpha-0: ",
       "- mlperf-file: passed",
       "- mlperf-from-file-bf16: passed",
       "with exact AUC",
       "GPU 0: 612 to 612 W, 1,980 to 1,980 MHz, 61 to 61 C; slowed by power limit",
       "- mlperf-from-file-tf32: passed",
       "- row-transfer: ",
       "- beyond-memory-all-rows-there: passed",
       "- beyond-memory-90-percent: passed",
       "of all rows in GPU memory",
       "lookups found their rows in memory",
       "- pytorch: ",
       "- table: ",
       "### sanitizer",
       "- sanitizer-probe: not run: compute-sanitizer does not work here: exit code 1; Error: "
       "Device not supported",
       "- sanitizer-memcheck: not run",
       "- sanitizer-racecheck: not run",
       " passed, 0 FAILED, ",
       "- not run: "});
#ifdef HLITE_WITH_BENCH
  check_in_order(report, {"- train_bench-bf16-alpha-1.05-batch-32: passed",
                          " samples/s",
                          "- embedding-cap-100-alpha-0: passed",
                          "bf16 update, sorted",
                          "- collectives-2-ranks: passed",
                          "all_to_all_v of 4,096 bytes: ",
                          "- exchanges-2-ranks-alpha-1.05: passed",
                          "route ",
                          "rows_exchange ",
                          "- exchanges-2-ranks-alpha-0: passed",
                          "- row-transfer: passed",
                          "width  16, copy   : ",
                          "width  16, kernel : ",
                          "width 128, packing: ",
                          "% of the bus",
                          "- table: passed",
                          "| bf16, tiny | Zipf 1.05",
                          "| tf32, tiny | uniform",
                          "| emb.lookup |",
                          "| emb.lookup |"});
  CHECK(std::filesystem::file_size(run / "out/train_bench.jsonl") > 0);
#else
  check_in_order(report,
                 {"- train_bench-bf16-alpha-1.05-batch-32: not run: train_bench is not built here",
                  "- embedding-cap-100-alpha-0: not run: gpu_embedding_bench is not built here",
                  "- table: not run: train_bench has left no results"});
#endif
  CHECK(std::filesystem::file_size(run / "out/logs.tar.gz") > 0);
  check_contains(read_text(run / "out/matmul_algorithms.txt"), {"emulated_device/9.0", " take "});
  CHECK((read_text(run / "results.md") == report));
}

TEST_CASE("a GPU check without a GPU says so and ends with code 4") {
  const GpuCheckRun run;
  const auto none = run.run(
      {"--bin", HLITE_PROGRAMS, "--plugin", HLITE_PLUGIN_WITHOUT_DEVICE, "--out", run / "out"});
  CHECK(none.code == 4);
  check_contains(none.err, {"no GPU", "no device, says the fake"});
  CHECK_FALSE(std::filesystem::exists(run / "out"));
  // Nothing is built for a GPU that is not there.
  const auto built = run.run({});
  CHECK(built.code == 4);
  check_contains(built.err, {"no GPU", "--pack"});
}

TEST_CASE("where there are several GPUs, a rank on each trains the bits of ranks that share one",
          "[release-only]") {
  const GpuCheckRun run;
  run.tool("nvidia-smi", "echo 'Some GPU, 580.1, 1000'; echo 'Some GPU, 580.1, 1000'");
  const auto result = run.run({"--bin", HLITE_PROGRAMS, "--plugin", HLITE_EMULATED_PLUGIN,
                               "--small", "--only", "golden", "--out", run / "out"},
                              {"HLITE_EMULATED_DEVICES=2"});
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  const std::string report = read_text(run / "out/report.md");
  check_in_order(report, {"- golden-dlrm_plain-2-ranks-on-one-gpu: passed",
                          "- golden-dlrm_plain-2-gpus: passed",
                          "- golden-dlrm_plain-2-same-bits-on-one-gpu-and-on-2: passed",
                          "- golden-dlrm_fused-2-same-bits-on-one-gpu-and-on-2: passed",
                          "- golden-dlrm_fused-4-ranks-on-one-gpu: passed"});
  CHECK(report.find("4-gpus") == std::string::npos);
}

TEST_CASE("a GPU that CUDA cannot use is a failure, not the want of one") {
  const GpuCheckRun run;
  run.tool("nvidia-smi", "echo 'Some GPU, 580.1, 143771'");
  const auto result = run.run(
      {"--bin", HLITE_PROGRAMS, "--plugin", HLITE_PLUGIN_WITHOUT_DEVICE, "--out", run / "out"});
  INFO(result.out << result.err);
  CHECK(result.code == 1);
  check_in_order(read_text(run / "out/report.md"),
                 {"- driver: 580.1", "- GPU: Some GPU",
                  "- device: FAILED: nvidia-smi lists Some GPU, but no device, says the fake",
                  "0 passed, 1 FAILED, 0 not run"});
}

TEST_CASE("a GPU check refuses what it does not know, with code 2") {
  const GpuCheckRun run;
  const auto refused = [&](const std::vector<std::string>& arguments,
                           std::initializer_list<std::string_view> parts) {
    const auto result = run.run(arguments);
    INFO(result.out);
    CHECK(result.code == 2);
    check_contains(result.err, parts);
  };
  refused({"--only", "tests,nonsense"},
          {"expected some of golden,tests,bench,sanitizer", "nonsense"});
  refused({"--only", ""}, {"expected some of"});
  refused({"--nonsense"}, {"--nonsense"});
  refused({"--pack", "a", "--packed", "b"}, {"not allowed with"});
  refused({"--minutes", "0"}, {"above 0"});
  refused({"--packed", run / "absent.tar.gz"}, {"--packed", "absent.tar.gz"});
  refused({"--packed", run / "path"}, {"expected what --pack makes"});
  refused({"--bin", run / "path"}, {"found no train"});
  CHECK(run.run({"--help"}).code == 0);
}

TEST_CASE("where a build lacks headers, the GPU check says what to do instead") {
  const GpuCheckRun run;
  run.tool("nvidia-smi", "echo 'Some GPU, 580.1, 143771'");
  const auto result = run.run({}, {"CXX=false"});
  CHECK(result.code == 2);
  check_contains(result.err, {"cannot build here", "oneapi/dnnl/dnnl.h", "catch2/catch.hpp",
                              "Use --packed FILE"});
}

TEST_CASE("a GPU is not kept busy by tests that are about the emulation") {
  const auto listed = run_program({HLITE_PROGRAMS "/cuda_tests", "-#", "--list-tags", "[gpu]"});
  INFO(listed.out << listed.err);
  check_contains(listed.out, {"[#cuda_plugin_test]", "[#matmul_test]"});
  for (const char* own : {"[#planted_test]", "[#random_streams_test]", "[#nccl_processes_test]"})
    CHECK(listed.out.find(own) == std::string::npos);
}

TEST_CASE("a GPU check works from an archive alone") {
  const GpuCheckRun run;
  const auto tar = run_program(
      {"/usr/bin/env", "bash", "-c",
       "set -e; mkdir -p a/bin a/tools a/tests/data\n"
       "cp -r \"$1\"/tools/gpu_check \"$1\"/tools/gpu_check.sh a/tools\n"
       "cp -r \"$1\"/tests/data/golden a/tests/data\n"
       "for file in "
       "\"$2\"/{train,{cuda,ops,optimizer}_tests,libfake_plugin_*.so,libhlite_cuda.so}; do\n"
       "  if [ -e \"$file\" ]; then cp \"$file\" a/bin; fi\n"
       "done\n"
       "echo abc123 >a/packed_commit\n"
       "tar -c -C a . | gzip -1 >archive.tar.gz; rm -r a",
       "bash", HLITE_SOURCE_DIR, HLITE_PROGRAMS},
      run / "");
  INFO(tar.err);
  REQUIRE(tar.code == 0);
  const std::vector<std::string> options = {"--plugin", HLITE_EMULATED_PLUGIN, "--only", "tests",
                                            "--files",  "cuda_plugin_test"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return more;
  };
  const std::vector<std::string> expected = {"- commit: abc123", "- tests-cuda_plugin_test: passed",
                                             "3 passed, 0 FAILED, 0 not run"};
  const auto first = run.run(with({"--packed", "archive.tar.gz", "--unpack", "unpacked"}));
  INFO(first.out << first.err);
  CHECK(first.code == 0);
  check_in_order(read_text(run / "build/gpu_check/report.md"), expected);

  // Into a temporary folder, of which nothing stays.
  std::filesystem::create_directories(run / "temporary");
  const auto second = run.run(with({"--packed=archive.tar.gz", "--out", "second"}),
                              {"TMPDIR=" + (run / "temporary")});
  INFO(second.out << second.err);
  CHECK(second.code == 0);
  check_in_order(read_text(run / "second/report.md"), expected);
  CHECK(std::filesystem::is_empty(run / "temporary"));

  // And from inside.
  const auto third = run_program(
      run.command(with({"--out", run / "third"}), {}, run / "unpacked/tools/gpu_check.sh"));
  INFO(third.out << third.err);
  CHECK(third.code == 0);
  check_in_order(read_text(run / "third/report.md"), expected);
}

}  // namespace
}  // namespace hlite::test
