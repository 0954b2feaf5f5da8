#!/usr/bin/env python3
"""train_bench and PyTorch in turn on the same shapes, batch, threads and precisions.

Timings on a shared machine swing by half from one minute to the next, so only runs that alternate can be compared:
each round runs every contender once, a ratio is taken within each round to the best of PyTorch's spellings of that
precision, and the median over rounds is what counts.

--venv DIR takes the newest PyTorch from PyPI, in a virtual environment that is made where there is none (1.5 GB; what
a CPU needs of it only). Without it python3-torch and, since its default BLAS is slow, libopenblas0-openmp are needed
(tools/setup.sh --bench).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"  # Debian's; its pthread build fights torch's OpenMP
# What `import torch` needs on a CPU, without the CUDA libraries that torch's own list adds.
PACKAGES = ["torch", "numpy", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec",
            "filelock", "setuptools", "nvidia-cufile", "nvidia-cusparselt-cu13", "nvidia-nvshmem-cu13", "nvidia-nccl-cu13"]
SPELLINGS = {"fused": [], "bags": ["--spelling", "bags"], "compiled": ["--compile"],
             "compiled_bags": ["--spelling", "bags", "--compile"]}
BATCH = 2048


def last_json(command, env=None):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def newest_pytorch(folder):
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", *PACKAGES], check=True)
    return python


def compare(shape, precision, runs):
    """runs: name -> a call that gives the run's JSON. Prints rounds and the summary of one shape and precision."""
    rates = {name: [] for name in runs}
    shares = []
    for r in range(A.rounds):
        for name, run in runs.items():
            result = run()
            rates[name].append(BATCH * 1e3 / result["ms_median"])
            if name == "ours":
                shares.append(result["floor_ms"] / result["ms_median"])
        print(f"{shape} {precision} round {r + 1}: " + "  ".join(f"{k} {v[-1]:,.0f}/s" for k, v in rates.items()), flush=True)
    best = [max(v[r] for k, v in rates.items() if k != "ours") for r in range(A.rounds)]
    ratios = [o / b for o, b in zip(rates["ours"], best)]
    floor = f"; {100 * statistics.median(shares):.0f} % of the floor" if precision == "fp32" else ""
    print(f"{shape} {precision}, {A.threads} threads, batch {BATCH}, SGD: "
          + ", ".join(f"{k} {statistics.median(v):,.0f}" for k, v in rates.items()) + " samples/s; ratio to the best of "
          f"PyTorch {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}){floor}", flush=True)


def main():
    python, env = A.python, None
    if A.venv:
        python, env = newest_pytorch(A.venv), {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    elif os.path.isdir(OPENBLAS):
        env = dict(os.environ, LD_LIBRARY_PATH=OPENBLAS)
    else:
        print(f"warning: {OPENBLAS} is not there; torch may use a slow BLAS", file=sys.stderr)
    print("PyTorch " + subprocess.run([python, "-c", "import torch; print(torch.__version__)"], check=True, env=env,
                                      stdout=subprocess.PIPE, text=True).stdout.strip(), flush=True)
    for shape in A.shapes.split(","):
        for precision in A.precisions.split(","):
            common = ["--shape", shape, "--threads", str(A.threads), "--seconds", str(A.seconds), "--precision", precision]
            runs = {"ours": lambda c=common: last_json([A.bin, *c, "--quiet"])}
            for name in A.spellings.split(","):
                command = [python, os.path.join(HERE, "pytorch_dlrm.py"), *common, *SPELLINGS[name]]
                runs[name] = lambda c=command: last_json(c, env)
            compare(shape, precision, runs)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(HERE, "../../build/release/bin/train_bench"))
    ap.add_argument("--python", default="/usr/bin/python3", help="the interpreter that has torch")
    ap.add_argument("--venv", help="take the newest PyTorch in this virtual environment")
    ap.add_argument("--shapes", default="kaggle,mlperf")
    ap.add_argument("--precisions", default="fp32,bf16")
    ap.add_argument("--spellings", default="fused,bags", help="of " + ",".join(SPELLINGS) + "; compiled ones want a newer PyTorch")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=4)
    A = ap.parse_args()
    main()
