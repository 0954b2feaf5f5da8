#!/usr/bin/env python3
"""AUC of DLRM compared with DCNv2 on generated multi-hot data, after one pass.

  tests/bench/planted_multi_hot.py --out WORK [--train 400000] [--seeds 3]

Rows of criteo_synth, whose true click probabilities are known, made multi-hot by criteo_prep as MLPerf does it. Both
models have the same tables, bottom and top network, optimizer and batches; DLRM takes the dot products of the vectors,
DCNv2 cross layers over all of them. Learning rates are chosen by the AUC on rows of their own (validation), and the
table shows that of others (test).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH, BATCH = 16, 1024
MODELS = {
    "dlrm": [{"name": "inter", "type": "Interaction", "bottom": ["bottom", "emb"], "top": "features"}],
    "dcnv2": [{"name": "vectors", "type": "Reshape", "bottom": "emb", "top": "vectors", "leading_dim": 26 * WIDTH},
              {"name": "x0", "type": "Concat", "bottom": ["vectors", "bottom"], "top": "x0"},
              {"name": "cross", "type": "MultiCross", "bottom": "x0", "top": "features",
               "mc_param": {"num_layers": 3, "projection_dim": 64}}],
}


def config(model, rate, seed, manifest, evaluated, rows):
    sparse = {"top": "keys", "type": "DistributedSlot", "slot_num": 26, "nnz_per_slot": manifest["hotness"],
              "is_fixed_length": True}
    mlp = [{"name": name, "type": "MLP", "bottom": below, "top": name, "mlp_param": {"num_outputs": widths, **activation}}
           for name, below, widths, activation in (
               ("bottom", "dense", [64, 32, WIDTH], {}),
               ("logit", "features", [128, 64, 1], {"activations": ["Relu", "Relu", "None"]}))]
    return {
        "solver": {"lr_policy": "fixed", "seed": seed, "display": 0, "max_iter": rows // BATCH, "gpu": [0],
                   "batchsize": BATCH, "batchsize_eval": 8192, "eval_interval": rows // BATCH, "max_eval_samples": A.test,
                   "snapshot": 10000000, "snapshot_prefix": "./p_"},
        "optimizer": {"type": "Adam", "update_type": "Local", "adam_hparam": {
            "learning_rate": rate, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay_start": rows // BATCH // 2,
            "decay_steps": rows // BATCH - rows // BATCH // 2, "decay_power": 2, "end_lr": 0}},
        "layers": [
            {"name": "data", "type": "Data", "format": "Raw", "source": "data/train.bin", "eval_source": f"data/{evaluated}.bin",
             "check": "None", "num_samples": rows, "eval_num_samples": A.test,
             "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 13}, "sparse": [sparse]},
            {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
             "sparse_embedding_hparam": {"slot_size_array": manifest["slot_size_array"], "embedding_vec_size": WIDTH,
                                         "combiner": "sum"}},
            mlp[0], *MODELS[model], mlp[1],
            {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["logit", "label"], "top": "loss"}]}


def program(name, *arguments):
    subprocess.run([os.path.join(A.bin, name), *map(str, arguments)], check=True, cwd=A.out, stdout=subprocess.DEVNULL)


def auc_of(model, rate, seed, manifest, evaluated):
    with open(os.path.join(A.out, "config.json"), "w") as f:
        json.dump(config(model, rate, seed, manifest, evaluated, A.train), f)
    program("train", "--config", "config.json", "--threads", A.threads, "--quiet", "--metrics", "metrics.jsonl")
    with open(os.path.join(A.out, "metrics.jsonl")) as f:
        auc = [e["auc"] for e in map(json.loads, f) if e["event"] == "eval"][-1]
    print(f"{model} rate {rate} seed {seed} {evaluated}: {auc:.5f}", file=sys.stderr, flush=True)
    return auc


def main():
    global A
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="a folder for data, configs and metrics")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    parser.add_argument("--train", type=int, default=400_000)
    parser.add_argument("--test", type=int, default=50_000, help="rows of validation and of test, each")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", type=lambda x: [float(r) for r in x.split(",")], default=[0.004, 0.008, 0.016])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--synth", type=str.split, default=[], help="further options of criteo_synth")
    A = parser.parse_args()
    A.bin = os.path.abspath(A.bin)
    os.makedirs(A.out, exist_ok=True)
    program("criteo_synth", "--train", A.train, "--test", 2 * A.test, "--out", "synth", "--force", *A.synth)
    program("criteo_prep", "--train", "synth.train.tsv", "--val", "synth.test.tsv", "--multi-hot", "dcnv2", "--out", "data",
            "--force")
    with open(os.path.join(A.out, "data", "val.bin"), "rb") as f:
        records = f.read()
    for name, part in (("validation", records[:len(records) // 2]), ("test", records[len(records) // 2:])):
        with open(os.path.join(A.out, "data", name + ".bin"), "wb") as f:
            f.write(part)
    with open(os.path.join(A.out, "data", "manifest.json")) as f:
        manifest = json.load(f)
    with open(os.path.join(A.out, "synth.meta.json")) as f:
        print(f"best possible AUC {json.load(f)['test']['bayes_auc']:.5f}\n")
    print(f"| model | rate | test AUC, seeds 1 to {A.seeds} | mean |\n|---|---|---|---|", flush=True)
    for model in MODELS:
        rate = max(A.rates, key=lambda r: auc_of(model, r, 1, manifest, "validation"))
        aucs = [auc_of(model, rate, seed, manifest, "test") for seed in range(1, A.seeds + 1)]
        print(f"| {model} | {rate} | " + ", ".join(f"{a:.5f}" for a in aucs) + f" | {statistics.mean(aucs):.5f} |", flush=True)


if __name__ == "__main__":
    main()
