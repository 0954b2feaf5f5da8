#!/usr/bin/env python3
"""How long training stands still for a snapshot.

    tests/bench/snapshot_gap.py --train build/release/bin/train [--train OTHER ...] --dir DIR [--rounds 3] [--snapshots 2]

Trains a model whose tables take --gb GB (vectors of 128 floats, SGD) on uniform keys, which is the hardest case for
copy-on-write, shows every iteration and takes a snapshot every --every iterations. Prints for each program, round and
snapshot: the longest time from the end of an iteration to the end of the next one while the snapshot is written; the
median iteration before, meanwhile and after it; and what the program says of it. An iteration in which a run waited for
a snapshot that was not complete when the next one was due is not among them: then --every is too small. Last, for each
program, the median and the maximum of the longest times. DIR needs space for two checkpoints.
"""
import argparse
import array
import json
import os
import random
import re
import statistics
import subprocess
import time

BATCH, TABLES, WIDTH = 1024, 4, 128


def prepare(folder, gb):
    rows = int(gb * 1e9 / 4 / WIDTH / TABLES)
    draw = random.Random(1)
    data = array.array("I")
    for _ in range(200 * BATCH):
        data.extend((draw.randrange(2), draw.randrange(50), *(draw.randrange(rows) for _ in range(TABLES))))
    with open(os.path.join(folder, "train.bin"), "wb") as file:
        data.tofile(file)

    def product(name, bottom, top, width, kind="FusedInnerProduct"):
        return {"name": name, "type": kind, "bottom": bottom, "top": top, "fc_param": {"num_output": width}} | (
            {"position": "Isolated"} if kind.startswith("Fused") else {})

    config = {
        "solver": {"seed": 7, "lr_policy": "fixed", "display": 1, "gpu": [0], "device": "cpu",
                   "batchsize": BATCH, "eval_interval": 0, "eval_batches": 1, "snapshot_prefix": "./snapshot_",
                   "keep_checkpoints": 1},
        "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.02}},
        "layers": [
            {"name": "data", "type": "Data", "format": "RawAsync", "source": "train.bin", "eval_source": "train.bin",
             "check": "None", "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 1},
             "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": TABLES, "max_nnz": 1,
                         "slot_num": TABLES}],
             "async_param": {"num_threads": 1, "num_batches_per_thread": 64, "io_block_size": 65536, "io_depth": 16,
                             "io_alignment": 512}},
            {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
             "sparse_embedding_hparam": {"slot_size_array": [rows] * TABLES, "embedding_vec_size": WIDTH,
                                         "combiner": 0}},
            product("b1", "dense", "b1", WIDTH),
            {"name": "inter", "type": "Interaction", "bottom": ["b1", "emb"], "top": "inter"},
            product("t1", "inter", "t1", 256), product("t2", "t1", "z", 1, "InnerProduct"),
            {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def measure(train, folder, more):
    """Ends of iterations, and for each snapshot the iteration, when it was complete, and its line."""
    run = subprocess.Popen([train, "--config", os.path.join(folder, "config.json"), "--threads", "2", *more],
                           stderr=subprocess.PIPE, text=True)
    ends, saves = {}, []
    for line in run.stderr:
        now = time.monotonic()
        if found := re.search(r" iter (\d+)/", line):
            ends[int(found[1])] = now
        elif found := re.search(r" after iteration (\d+) (in .*)", line):
            saves.append((int(found[1]), now, found[2]))
    if run.wait() != 0:
        raise SystemExit(f"{train} failed")
    return ends, saves


def report(train, every, ends, saves):
    """Prints what measure() has found. Returns the longest gap of each snapshot."""
    gap = {i: ends[i] - ends[i - 1] for i in ends if i - 1 in ends}
    longest, before = [], 0
    first = saves[0][0]
    print(f"{train}: median iteration before {1e3 * statistics.median(gap[i] for i in gap if 20 < i <= first):.1f} ms")
    for at, complete, text in saves:
        if before > ends[at]:
            gap.pop(at + 1, None)
            print(f"  iteration {at}: waited for the snapshot before")
        before = complete
        during = [gap[i] for i in gap if at < i <= at + every and ends[i - 1] <= complete]
        after = [gap[i] for i in gap if ends[i - 1] > complete and i <= at + every]
        if during:
            longest.append(max(during))
            print(f"  iteration {at}: longest {1e3 * max(during):.0f} ms, median {1e3 * statistics.median(during):.1f} ms "
                  f"over {len(during)} iterations" +
                  (f", after it {1e3 * statistics.median(after):.1f} ms" if after else "") + f"; {text}")
    return longest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="append", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--snapshots", type=int, default=1)
    parser.add_argument("--every", type=int, default=600)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    prepare(args.dir, args.gb)
    changes = [f"solver.snapshot={args.every}", f"solver.max_iter={args.every * (args.snapshots + 1) - 1}", *args.set]
    longest = {train: [] for train in args.train}
    for _ in range(args.rounds):
        for train in args.train:
            print("load", *(f"{n:.1f}" for n in os.getloadavg()), flush=True)
            found = measure(train, args.dir, [word for change in changes for word in ("--set", change)])
            longest[train] += report(train, args.every, *found)
    for train, times in longest.items():
        print(f"{train}: longest iteration of {len(times)} snapshots: median {1e3 * statistics.median(times):.0f} ms, "
              f"maximum {1e3 * max(times):.0f} ms")


if __name__ == "__main__":
    main()
