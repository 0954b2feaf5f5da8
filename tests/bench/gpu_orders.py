#!/usr/bin/env python3
"""Trains a golden run on emulated GPUs in many orders of their work: the weights must be the same bits in each.

  python3 tests/bench/gpu_orders.py build/release            20 orders of 2, 4 and 8 GPUs, and of 4 ranks on one
"""
import argparse
import filecmp
import glob
import gzip
import os
import shutil
import subprocess
import sys
import tempfile

ROWS = ("[[0,1]]", "[[0,1,2,3]]", "[[0,1],[2,3]]", "[[0,1,2,3,4,5,6,7]]", "[[0],[0],[0],[0]]")
BETWEEN = "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink"


def unpack(name, folder):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/golden", name)
    for path in glob.glob(os.path.join(source, "*")):
        target = os.path.join(folder, os.path.basename(path))
        if path.endswith(".gz"):
            with gzip.open(path) as packed, open(target[:-3], "wb") as file:
                shutil.copyfileobj(packed, file)
        else:
            shutil.copy(path, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="folder of a build with the emulated plug-in")
    parser.add_argument("--run", default="dlrm_fused", help="golden run (default: dlrm_fused)")
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="as in train")
    a = parser.parse_args()
    plugin = glob.glob(os.path.join(a.build, "**/libhlite_emulated_plugin.so"), recursive=True)
    if not plugin:
        sys.exit(f"{a.build}: expected libhlite_emulated_plugin.so, found none")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="gpu_orders.") as folder:
        unpack(a.run, folder)

        def train(rows, order, name):
            command = [os.path.join(a.build, "bin/train"), "--config", f"{folder}/config.json", "--quiet",
                       "--init", f"{folder}/init.safetensors", "--device", "cuda", "--threads", "1",
                       "--export", f"{folder}/{name}", "--set", f"solver.gpu={rows}", "--set", "solver.eval_interval=0",
                       "--set", f"solver.max_iter={a.iterations}"]
            if "],[" in rows:
                command += ["--set", BETWEEN]
            for change in a.set:
                command += ["--set", change]
            env = dict(os.environ, HLITE_CUDA_LIBRARY=plugin[0], HLITE_EMULATED_DEVICES="8")
            if order:
                env["HLITE_EMULATED_STREAMS"] = order
            subprocess.run(command, env=env, check=True)

        for rows in ROWS:
            train(rows, "", "first")
            different = []
            for order in ["late"] + [f"random:{seed}" for seed in range(1, a.orders + 1)]:
                train(rows, order, "other")
                if not filecmp.cmp(f"{folder}/first", f"{folder}/other", shallow=False):
                    different.append(order)
            wrong += len(different)
            print(f"{a.run} on {rows}: {a.orders + 1} orders, other bits in {different or 'none'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
