#!/usr/bin/env python3
"""Compares train_bench with PyTorch on the same shapes, batch size, threads and precisions.

Timings on a shared machine vary by half from one minute to the next, so only alternating runs can be compared.
Each round runs every program once and takes the ratio of train_bench to the fastest spelling. A spelling is a way to
write the model in PyTorch (pytorch_dlrm.py). The result is the median ratio over rounds. The floor is a lower bound of
the time of an iteration: its FLOPs and bytes at the rates that train_bench measures on this machine.

--venv DIR installs the newest PyTorch from PyPI (1.5 GB, only what a CPU needs) into a virtual environment, which is
created if it does not exist. Without --venv, the torch of --python is used, by default Debian's python3-torch. That one
also needs libopenblas0-openmp, as its default BLAS is slow (tools/setup.sh --bench installs both).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"  # Debian's; its pthread build competes with torch's OpenMP
# The packages that `import torch` needs on a CPU, without the CUDA libraries that torch depends on.
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
    """Runs all rounds of one shape and precision and prints their rates and a summary.

    runs: a dict from a program's name to a function that runs it and returns its JSON object.
    """
    rates = {name: [] for name in runs}
    shares = []
    for r in range(args.rounds):
        for name, run in runs.items():
            result = run()
            rates[name].append(BATCH * 1e3 / result["ms_median"])
            if name == "ours":
                shares.append(result["floor_ms"] / result["ms_median"])
        print(f"{shape} {precision} round {r + 1}: " + "  ".join(f"{k} {v[-1]:,.0f}/s" for k, v in rates.items()), flush=True)
    best = [max(v[r] for k, v in rates.items() if k != "ours") for r in range(args.rounds)]
    ratios = [o / b for o, b in zip(rates["ours"], best)]
    floor = f"; {100 * statistics.median(shares):.0f} % of the floor" if precision == "fp32" else ""
    print(f"{shape} {precision}, {args.threads} threads, batch {BATCH}, SGD: "
          + ", ".join(f"{k} {statistics.median(v):,.0f}" for k, v in rates.items()) + " samples/s; ratio to the best of "
          f"PyTorch {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}){floor}", flush=True)


def main():
    python, env = args.python, None
    if args.venv:
        python, env = newest_pytorch(args.venv), {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    elif os.path.isdir(OPENBLAS):
        env = dict(os.environ, LD_LIBRARY_PATH=OPENBLAS)
    else:
        print(f"warning: {OPENBLAS} does not exist; torch may use a slow BLAS", file=sys.stderr)
    print("PyTorch " + subprocess.run([python, "-c", "import torch; print(torch.__version__)"], check=True, env=env,
                                      stdout=subprocess.PIPE, text=True).stdout.strip(), flush=True)
    for shape in args.shapes.split(","):
        for precision in args.precisions.split(","):
            common = ["--shape", shape, "--threads", str(args.threads), "--seconds", str(args.seconds),
                      "--precision", precision]
            runs = {"ours": lambda c=common: last_json([args.bin, *c, "--quiet"])}
            for name in args.spellings.split(","):
                command = [python, os.path.join(HERE, "pytorch_dlrm.py"), *common, *SPELLINGS[name]]
                runs[name] = lambda c=command: last_json(c, env)
            compare(shape, precision, runs)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(HERE, "../../build/release/bin/train_bench"))
    ap.add_argument("--python", default="/usr/bin/python3", help="Python interpreter with torch installed")
    ap.add_argument("--venv", help="virtual environment to install the newest PyTorch into and use")
    ap.add_argument("--shapes", default="kaggle,mlperf")
    ap.add_argument("--precisions", default="fp32,bf16")
    ap.add_argument("--spellings", default="fused,bags",
                    help="some of " + ",".join(SPELLINGS) + "; the compiled ones need a newer PyTorch (--venv)")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=4)
    args = ap.parse_args()
    main()
