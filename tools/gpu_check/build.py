"""Builds what a check needs in build/gpu; no GPU is needed for that."""
import os
import re
import shutil
import subprocess

from processes import output_of, run_limited

TEST_PROGRAMS = ["cuda_tests", "ops_tests", "optimizer_tests"]  # those whose cases run on a GPU, too
PROGRAMS = ["train", "criteo_synth", *TEST_PROGRAMS, "gpu_embedding_bench", "train_bench", "comm_bench",
            "exchange_bench", "row_transfer_bench", "serve", "serve_bench"]
# What looks into an iteration, and its target, which needs more of a toolkit than the product does.
OPTIONAL = {"gpu_probe": "gpu_probe", "libhlite_trace.so": "hlite_trace"}
# What the Debian packages of tools/setup.sh bring; one of each line is enough.
HEADERS = [("oneapi/dnnl/dnnl.h", "openblas-pthread/cblas.h", "cblas.h"), ("nlohmann/json.hpp",), ("CLI/CLI.hpp",),
           ("spdlog/spdlog.h",), ("fmt/format.h",), ("xxhash.h",), ("isa-l/igzip_lib.h",), ("zlib.h",), ("zstd.h",),
           ("catch2/catch.hpp", "catch2/catch_test_macros.hpp")]


def missing():
    """Programs and headers that the build needs and this machine has not."""
    compiler = os.environ.get("CXX", "c++")
    needed = [("cmake",), ("ninja",), (compiler,), ("nvcc", "/usr/local/cuda/bin/nvcc")]
    lacking = [names[0] for names in needed if not any(map(shutil.which, names))]

    def compiles(header):
        done = subprocess.run([compiler, "-E", "-x", "c++", "-"], input=f"#include <{header}>\n".encode(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    if compiler not in lacking:
        lacking += [headers[0] for headers in HEADERS if not any(map(compiles, headers))]
    return lacking


def commit(root):
    try:
        done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty", "--exclude=*"],
                              capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def build(root, limit, architectures=None):
    """Folder of the programs. architectures: CMake's list, or those of a release. Raises RuntimeError, in words for the
    user."""
    lacking = missing()
    if lacking:
        raise RuntimeError(f"cannot build here: no {', '.join(lacking)}. Use --packed FILE, with what --pack FILE "
                           "makes where there is all; tools/setup.sh installs Debian's packages")
    folder = os.path.join(root, "build/gpu")
    os.makedirs(folder, exist_ok=True)
    # Programs and plug-in look for libraries in their own folder, and with the old tag for those that libraries need in
    # turn: DT_RUNPATH would not apply to them.
    flags = [f"-DCMAKE_{kind}_LINKER_FLAGS=-Wl,--disable-new-dtags" for kind in ("EXE", "SHARED", "MODULE")]
    steps = [["cmake", "-S", root, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DHLITE_WITH_CUDA=ON",
              "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16",
              f"-DCMAKE_CUDA_ARCHITECTURES={architectures}" if architectures else "-UCMAKE_CUDA_ARCHITECTURES",
              # An archive makes kernels smaller than nvcc does: 9 MB of sm_90's in place of 15.
              "-DCMAKE_CUDA_FLAGS=--no-compress",
              "-DCMAKE_BUILD_RPATH=$ORIGIN", *flags],
             ["cmake", "--build", folder,
              *([] if "CMAKE_BUILD_PARALLEL_LEVEL" in os.environ else ["-j", str(os.cpu_count())]),
              "--target", *PROGRAMS, "hlite_cuda"]]
    log = os.path.join(root, "build/gpu_check_build.log")
    with open(log, "wb") as out:
        for step in steps:
            if step is steps[1]:
                known = output_of(["cmake", "--build", folder, "--target", "help"], 60)
                step += [target for target in OPTIONAL.values() if re.search(rf"^{target}: ", known, re.MULTILINE)]
            ended = run_limited(step, limit, out)
            limit -= ended.seconds
            if ended.overran or ended.code != 0:
                how = "its time is over" if ended.overran else ended.how()
                raise RuntimeError(f"the build did not end well ({how}), see {log}; or use --packed FILE, with what "
                                   "--pack FILE makes on another machine")
    return os.path.join(folder, "bin")
