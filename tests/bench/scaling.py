#!/usr/bin/env python3
"""The same cores as threads of one rank, as ranks of one process, and as processes under mpirun.

Trains one DLRM on generated Criteo-like data, in turn, and prints samples/s and each way's ratio to
one rank with all threads, taken within each round. Weights are compared: they agree to rounding.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def config(batch, iterations, width):
    def fc(name, bottom, n):
        return {"name": name, "type": "FusedInnerProduct", "position": "Isolated", "bottom": bottom, "top": name,
                "fc_param": {"num_output": n}}
    return {
        "solver": {"seed": 7, "lr_policy": "fixed", "display": 1000000, "max_iter": iterations, "batchsize": batch,
                   "gpu": [0], "snapshot": 1000000, "snapshot_prefix": "./snap_"},
        "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.1}},
        "layers": [
            {"name": "data", "type": "Data", "format": "RawAsync", "source": "s.train.bin", "eval_source": "s.train.bin",
             "check": "None", "slot_size_array": "s.manifest.json", "label": {"top": "label", "label_dim": 1},
             "dense": {"top": "dense", "dense_dim": 13, "aligned": "Auto"},
             "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 26, "max_nnz": 1,
                         "slot_num": 26}],
             "async_param": {"num_threads": 1, "num_batches_per_thread": 4, "io_block_size": 524288, "io_depth": 4,
                             "io_alignment": 512, "shuffle": False}},
            {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
             "sparse_embedding_hparam": {"slot_size_array": "s.manifest.json", "embedding_vec_size": width,
                                         "combiner": 0}},
            fc("b1", "dense", 512), fc("b2", "b1", 256), fc("b3", "b2", width),
            {"name": "inter", "type": "Interaction", "bottom": ["b3", "emb"], "top": "inter"},
            fc("t1", "inter", 512), fc("t2", "t1", 256),
            {"name": "z", "type": "InnerProduct", "bottom": "t2", "top": "z", "fc_param": {"num_output": 1}},
            {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--width", type=int, default=16, help="of the embedding")
    parser.add_argument("--iterations", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpi", action="store_true", help="a process a rank under mpirun too")
    args = parser.parse_args()
    binary, n = os.path.abspath(args.bin), args.cores
    train = os.path.join(binary, "train")
    one_row, rows = json.dumps([list(range(n))]), json.dumps([[i] for i in range(n)])
    # name -> (prefix, topology, threads in all)
    ways = {f"1 rank x {n} threads": ([], "[[0]]", n), f"{n} ranks x 1 thread": ([], one_row, n)}
    if args.mpi:
        ways[f"{n} processes x 1 thread"] = (["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", str(n)], rows, 1)
    ways["1 rank x 1 thread"] = ([], "[[0]]", 1)
    rates = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(binary, "criteo_synth"), "--train", "400000", "--test", "0", "--like", "criteo",
                        "--cap", "1000000", "--format", "raw", "--out", f"{folder}/s"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(f"{folder}/config.json", "w") as f:
            json.dump(config(args.batch, args.iterations, args.width), f)
        losses = {}
        for r in range(args.rounds):
            order = list(ways)[r % len(ways):] + list(ways)[:r % len(ways)]
            for name in order:
                prefix, gpu, threads = ways[name]
                subprocess.run([*prefix, train, "--config", f"{folder}/config.json", "--threads", str(threads), "--quiet",
                                "--set", f"solver.gpu={gpu}", "--set", f"solver.display={args.iterations}",
                                "--metrics", f"{folder}/m.jsonl"], check=True, stdout=subprocess.DEVNULL)
                events = [json.loads(line) for line in open(f"{folder}/m.jsonl")]
                rates[name].append(events[-1]["samples_per_s"])
                losses[name] = [e["loss"] for e in events if e["event"] == "train"][-1]
            print(f"round {r + 1}: " + "  ".join(f"{k} {v[-1]:,.0f}/s" for k, v in rates.items()), flush=True)
        base = list(ways)[0]
        print(f"batch {args.batch}, width {args.width}, {args.iterations} iterations, {args.rounds} rounds")
        for name, values in rates.items():
            ratios = [v / b for v, b in zip(values, rates[base])]
            print(f"{name:24} {statistics.median(values):10,.0f} samples/s  {statistics.median(ratios):.2f} of the first "
                  f"({min(ratios):.2f}-{max(ratios):.2f}), loss {losses[name]:.6f}")
        if max(abs(v / losses[base] - 1) for v in losses.values()) > 1e-4:
            sys.exit("the losses differ")


if __name__ == "__main__":
    main()
