#!/usr/bin/env python3
"""Trains a golden run on emulated GPUs in many orders of their work: the weights must be the same bits in each.

  python3 tests/bench/gpu_orders.py build/release             20 orders of 1 to 8 GPUs, of 4 ranks on one, and of one
                                                              with rows in its memory, the host's and on a disk
  python3 tests/bench/gpu_orders.py build/release --matrix    of every way to spread tables, every communication type,
                                                              fp32 and bf16, with graphs and without: an hour
"""
import argparse
import filecmp
import glob
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROWS = ("[[0]]", "[[0,1]]", "[[0,1,2,3]]", "[[0,1],[2,3]]", "[[0,1,2,3,4,5,6,7]]", "[[0],[0],[0],[0]]")
HPARAM = "layers.embedding.sparse_embedding_hparam"
# The memories must hold the rows of two batches: few, so that rows leave them.
SMALL_BATCHES = ["solver.batchsize=32", "solver.batchsize_eval=32"]
SLOTS = "[1000,50,3,20000,7,500,11,4]"  # of dlrm_fused
GRAPHS = {"graphs": ["solver.cuda_graph=true"], "no graphs": ["solver.cuda_graph=false"]}
PRECISIONS = {"fp32": [], "bf16": ["solver.precision=bf16"],
              "bf16 wire, sharded optimizer": ["solver.wire_precision=bf16", "solver.shard_optimizer=true"]}


def hybrid(communication):
    return [f"{HPARAM}.communication_type={communication}"]


def tables(sharding):
    return ["layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot",
            f'{HPARAM}={{"embedding_vec_size":16,"combiner":0,"slot_size_array":{SLOTS},"sharding":"{sharding}"}}']


def hashed(kind):
    return [f"layers.embedding.type={kind}SlotSparseEmbeddingHash",
            f'{HPARAM}={{"embedding_vec_size":16,"combiner":0,"max_vocabulary_size_per_gpu":30000}}']


def embeddings(rows):
    """By name, those that a run on these rows of GPUs can have."""
    nodes = rows.count("[") - 1
    kinds = {f"hybrid, {c}": hybrid(c) for c in ("IB_NVLink", "IB_NVLink_Hierarchical")}
    if nodes == 1:
        kinds["hybrid, NVLink_SingleNode"] = hybrid("NVLink_SingleNode")
    kinds.update({f"one-hot, {s}": tables(s) for s in ("slot", "row", "replicate", "auto")})
    kinds.update({f"{k}, hashed": hashed(k) for k in ("Distributed", "Localized")})
    return kinds


def unpack(name, folder):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/golden", name)
    for path in glob.glob(os.path.join(source, "*")):
        target = os.path.join(folder, os.path.basename(path))
        if path.endswith(".gz"):
            with gzip.open(path) as packed, open(target[:-3], "wb") as file:
                shutil.copyfileobj(packed, file)
        else:
            shutil.copy(path, target)


class Runs:
    def __init__(self, build, folder, iterations):
        plugin = glob.glob(os.path.join(build, "**/libhlite_emulated_plugin.so"), recursive=True)
        if not plugin:
            sys.exit(f"{build}: expected libhlite_emulated_plugin.so, found none")
        self.plugin, self.folder = plugin[0], folder
        self.program = os.path.join(build, "bin/train")
        self.iterations, self.count = iterations, 0

    def train(self, rows, changes, order, name):
        """The process that has run; its weights are in the file of that name."""
        command = [self.program, "--config", f"{self.folder}/config.json", "--quiet", "--device", "cuda",
                   "--threads", "1", "--export", f"{self.folder}/{name}"]
        for change in [f"solver.gpu={rows}", "solver.eval_interval=0", f"solver.max_iter={self.iterations}", *changes]:
            command += ["--set", change]
        if any("Hash" in change for change in changes):
            command += ["--set", "solver.seed=1"]  # the golden run's initial weights are of other tables
        else:
            command += ["--init", f"{self.folder}/init.safetensors"]
        env = dict(os.environ, HLITE_CUDA_LIBRARY=self.plugin, HLITE_EMULATED_DEVICES="8")
        if order:
            env["HLITE_EMULATED_STREAMS"] = order
        self.count += 1
        return subprocess.run(command, env=env, capture_output=True, text=True)

    def three_tiers(self, rows):
        """Changes that put rows into a GPU's memory and the host's, as few as can be, and on a disk."""
        memory = {"gpu_gb": 1e-6, "host_gb": 1e-6, "disk": self.folder}
        for key in ("gpu_gb", "host_gb"):
            refused = self.train(rows, [*SMALL_BATCHES, "solver.embedding_memory=" + json.dumps(memory)], "", "refused")
            memory[key] = float(re.search("at least ([0-9.]+) GB", refused.stderr)[1])
        return [*SMALL_BATCHES, "solver.embedding_memory=" + json.dumps(memory)]

    def different(self, rows, changes, orders):
        """The orders that end in other weights than work that runs at once; None: refused, in words."""
        first = self.train(rows, changes, "", "first")
        if first.returncode != 0:
            return None, first.stderr.strip()
        wrong = []
        for order in ["late"] + [f"random:{seed}" for seed in range(1, orders + 1)]:
            other = self.train(rows, changes, order, "other")
            if other.returncode != 0:
                wrong.append(f"{order} ({other.stderr.strip()})")
            elif not filecmp.cmp(f"{self.folder}/first", f"{self.folder}/other", shallow=False):
                wrong.append(order)
        return wrong, ""


def cases(rows, matrix):
    """Name and changes of the config."""
    if not matrix:
        yield "as it is", hybrid("IB_NVLink") if "],[" in rows else []
        return
    for parts in itertools.product(embeddings(rows).items(), PRECISIONS.items(), GRAPHS.items()):
        if rows == "[[0]]" and "sharded" in parts[1][0]:
            continue
        if rows.count("[0]") > 1 and parts[2][0] == "graphs":
            continue  # ranks that share a GPU have none
        yield ", ".join(name for name, _ in parts), [change for _, changes in parts for change in changes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="folder of a build with the emulated plug-in")
    parser.add_argument("--run", default="dlrm_fused", help="golden run (default: dlrm_fused)")
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--matrix", action="store_true", help="every way to train dlrm_fused")
    parser.add_argument("--rows", action="append", help="instead of all: as solver.gpu (repeatable)")
    parser.add_argument("--only", action="append", help="cases with this in their names (repeatable)")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="as in train")
    a = parser.parse_args()
    wrong, refused, start = 0, 0, time.time()
    with tempfile.TemporaryDirectory(prefix="gpu_orders.") as folder:
        unpack(a.run, folder)
        runs = Runs(a.build, folder, a.iterations)
        for rows in a.rows or ROWS:
            tiers = [("three tiers", runs.three_tiers(rows))] if rows == "[[0]]" and not a.matrix else []
            for name, changes in itertools.chain(cases(rows, a.matrix), tiers):
                if a.only and not any(part in name for part in a.only):
                    continue
                different, why = runs.different(rows, changes + a.set, a.orders)
                if different is None:
                    refused += 1
                    print(f"{rows}, {name}: refused: {why}", flush=True)
                    continue
                wrong += len(different)
                print(f"{rows}, {name}: {a.orders + 1} orders, other bits in {different or 'none'}", flush=True)
        print(f"{a.run}: {runs.count} runs in {time.time() - start:.0f} s, {wrong} with other bits, "
              f"{refused} cases refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
