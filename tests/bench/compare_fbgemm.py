#!/usr/bin/env python3
"""Embedding tables on the CPU compared with FBGEMM's: lookup, sort and update of one batch.

Runs train_bench --shape tables and FBGEMM's SplitTableBatchedEmbeddingBagsCodegen in turn: 26 tables of 1,000,000 rows
of 64 floats, batch 2048, one key a sample and table from Zipf(1.05). Of train_bench it takes the steps of the embedding,
of FBGEMM a forward call and a backward call, which updates the rows. A ratio is FBGEMM's time over ours within a round.

    tests/bench/compare_fbgemm.py --venv DIR [--rounds 5] [--seconds 3] [--threads 2]

DIR is a virtual environment, made where there is none, with fbgemm-gpu-cpu and the PyTorch it was built for
(1.5 GB). The machine must be quiet.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

TABLES, ROWS, WIDTH, BATCH, ALPHA, BATCHES = 26, 1_000_000, 64, 2048, 1.05, 64
# The newest, and the PyTorch that it was built for: it does not load with another one, and does not say which it wants.
FBGEMM = ["fbgemm-gpu-cpu==1.9.0", "torch==2.14.0"]
OPTIMIZERS = {"SGD": "EXACT_SGD", "RowWiseAdaGrad": "EXACT_ROWWISE_ADAGRAD"}


def fbgemm(optimizer, seconds, threads):
    """Prints the milliseconds of forward and backward of one batch, in the process of DIR's Python."""
    import torch
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen)

    from pytorch_dlrm import zipf_keys
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, WIDTH, EmbeddingLocation.HOST, ComputeDevice.CPU)] * TABLES,
        optimizer=getattr(EmbOptimType, OPTIMIZERS[optimizer]), learning_rate=0.01, eps=1e-8)
    tables.init_embedding_weights_uniform(-0.001, 0.001)
    # Keys of all samples of table 0, then of table 1, ...
    keys = [zipf_keys(ROWS, ALPHA, (TABLES, BATCH)).flatten() for _ in range(BATCHES)]
    offsets = torch.arange(TABLES * BATCH + 1)
    gradient = torch.rand(BATCH, TABLES * WIDTH) * 1e-3
    times, begin, batch = [], time.perf_counter(), 0
    while time.perf_counter() - begin < seconds or len(times) < 10:
        start = time.perf_counter()
        out = tables(keys[batch % BATCHES], offsets)
        forward = time.perf_counter()
        out.backward(gradient)
        times.append((forward - start, time.perf_counter() - forward))
        batch += 1
    forward, backward = (statistics.mean(one[i] for one in times[5:]) * 1e3 for i in range(2))
    print(json.dumps({"forward": forward, "backward": backward}))


def train_bench(program, optimizer, seconds, threads):
    out = subprocess.run([program, "--shape", "tables", "--cap", str(ROWS), "--batch", str(BATCH), "--alpha", str(ALPHA),
                          "--optimizer", optimizer, "--seconds", str(seconds), "--threads", str(threads), "--quiet"],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    steps = json.loads(out)["steps_ms_floor"]
    return {name.split(".")[1]: ms for name, (ms, _) in steps.items() if name.startswith("emb.")}


def environment(folder):
    from compare_pytorch import newest_pytorch
    python = newest_pytorch(folder)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *FBGEMM], check=True)
    return python


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--venv", help="virtual environment with FBGEMM")
    ap.add_argument("--program", default="build/release/bin/train_bench")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=3)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--fbgemm", choices=OPTIMIZERS, help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.fbgemm:
        fbgemm(a.fbgemm, a.seconds, a.threads)
        return
    if not a.venv:
        ap.error("--venv: expected a virtual environment")
    python = environment(a.venv)
    for optimizer in OPTIMIZERS:
        ratios = []
        for _ in range(a.rounds):
            ours = train_bench(a.program, optimizer, a.seconds, a.threads)
            theirs = json.loads(subprocess.run(
                [python, os.path.abspath(__file__), "--fbgemm", optimizer, "--seconds", str(a.seconds), "--threads",
                 str(a.threads)], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
            ratios.append(sum(theirs.values()) / sum(ours.values()))
            print(f"{optimizer}: ours {sum(ours.values()):.2f} ms "
                  f"({', '.join(f'{name} {ms:.2f}' for name, ms in ours.items())}), FBGEMM {sum(theirs.values()):.2f} ms "
                  f"(forward {theirs['forward']:.2f}, backward {theirs['backward']:.2f}), ratio {ratios[-1]:.2f}")
        print(f"{optimizer}: ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


if __name__ == "__main__":
    main()
