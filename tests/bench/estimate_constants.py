#!/usr/bin/env python3
"""What train --estimate says of published runs, for constants that are of one of them alone.

    tests/bench/estimate_constants.py --bin build/release/bin

For each time of a step without work (an assumption) the share of the data sheet's rate that products reach is fitted to
MLPerf 2.0's DLRM on 1x8 A100; a line says what that gives for the others, whose rates follow from their data sheets.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The data sheets' rates of bf16 products, memory and the copy from the host, and links as machine.cpp has them.
GPUS = {"a100": {"flops": 312e12, "memory": 2.04e12, "host": 22e9, "nvlink": 235e9, "network": 22e9},
        "h100": {"flops": 989e12, "memory": 3.35e12, "host": 45e9, "nvlink": 360e9, "network": 44e9}}
FITTED = ("mlperf_dgx_a100.json", "1x8", "a100", 1.355)
OTHERS = (("mlperf_dgx_a100_8x8x1120.json", "8x8", "a100", 0.613),
          ("mlperf_dgx_a100_14x8x640.json", "14x8", "a100", 0.563),
          ("mlperf_dgx_a100.json", "1x8", "h100", 0.855))


def estimated(binary, folder, run, share, step):
    """Milliseconds: where the last of the steps ends."""
    config, topology, gpu, _ = run
    g = GPUS[gpu]
    machine = {"name": gpu, "device": "gpu", "flops": {"fp32": share * g["flops"]},
               "memory_bytes_per_s": 0.8 * g["memory"],
               "host_bytes_per_s": g["host"], "step_seconds": step,
               "in_node": {"kind": "nvlink", "bytes_per_s": g["nvlink"], "seconds": 7e-6},
               "between": {"bytes_per_s": g["network"], "seconds": 25e-6, "nics": 8}}
    path = os.path.join(folder, "machine.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(machine, file)
    text = subprocess.run([f"{binary}/train", "--config", f"{ROOT}/configs/{config}", "--estimate",
                           f"{topology} {path}"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return max(float(us) for us in re.findall(r"^[* ] \S.* ([\d.]+)$", text, re.MULTILINE)) / 1e3


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for us in (2, 4, 6, 7, 8, 9, 10, 12):
            low, high = 0.1, 1.0
            for _ in range(12):
                share = (low * high) ** 0.5
                slow = estimated(a.bin, folder, FITTED, share, us * 1e-6) > FITTED[3]
                low, high = (share, high) if slow else (low, share)
            line = f"a step of {us:2} us: products at {share:.3f}"
            for run in OTHERS:
                ms = estimated(a.bin, folder, run, share, us * 1e-6)
                line += f", {run[1]} {run[2]} {ms:.3f} ms ({100 * (ms / run[3] - 1):+.0f} %)"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
