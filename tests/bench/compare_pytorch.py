#!/usr/bin/env python3
"""train_bench and PyTorch in turn on the same shapes, batch and threads.

Timings on a shared machine swing by half from one minute to the next, so only runs that alternate
can be compared: each round runs every contender once, a ratio is taken within each round, and the
median over rounds is what counts. Needs python3-torch and, since its default BLAS is slow,
libopenblas0-openmp (tools/setup.sh --bench).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"  # Debian's; its pthread build fights torch's OpenMP


def last_json(command, env=None):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(HERE, "../../build/release/bin/train_bench"))
    ap.add_argument("--python", default="/usr/bin/python3", help="the interpreter that has torch")
    ap.add_argument("--shapes", default="kaggle,mlperf")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=4)
    a = ap.parse_args()
    env = dict(os.environ, LD_LIBRARY_PATH=OPENBLAS) if os.path.isdir(OPENBLAS) else None
    if env is None:
        print(f"warning: {OPENBLAS} is not there; torch may use a slow BLAS", file=sys.stderr)
    for shape in a.shapes.split(","):
        rates = {"ours": [], "fused": [], "bags": []}
        floors = []
        for r in range(a.rounds):
            common = ["--shape", shape, "--threads", str(a.threads), "--seconds", str(a.seconds)]
            ours = last_json([a.bin, *common, "--quiet"])
            rates["ours"].append(2048e3 / ours["ms_median"])
            floors.append(ours["floor_ms"] / ours["ms_median"])
            for spelling in ("fused", "bags"):
                peer = last_json([a.python, os.path.join(HERE, "pytorch_dlrm.py"), *common, "--spelling", spelling], env)
                rates[spelling].append(2048e3 / peer["ms_median"])
            print(f"{shape} round {r + 1}: " + "  ".join(f"{k} {v[-1]:,.0f}/s" for k, v in rates.items()), flush=True)
        best = [max(f, b) for f, b in zip(rates["fused"], rates["bags"])]
        ratios = [o / b for o, b in zip(rates["ours"], best)]
        print(f"{shape}, {a.threads} threads, batch 2048, SGD: "
              f"ours {statistics.median(rates['ours']):,.0f} samples/s, "
              f"PyTorch fused {statistics.median(rates['fused']):,.0f}, bags {statistics.median(rates['bags']):,.0f}; "
              f"ratio to the best spelling {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}); "
              f"{100 * statistics.median(floors):.0f} % of the floor")


if __name__ == "__main__":
    main()
