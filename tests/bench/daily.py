#!/usr/bin/env python3
"""Ten days of clicks, on each of which ids come and go: rows that tables hold, and AUC on the next day.

    tests/bench/daily.py --bin build/release/bin --work DIR [--days 10] [--rows 300000] [--turnover 0.1]
                         [--rounds 1] [--json FILE] [--records DIR --machine TEXT --date DATE]

Writes days of Criteo-like data (criteo_synth --like criteo), prepares each so that it continues the one before, and
trains one pass over all of them in one run (`"follow": true`), which scores each day before it trains on it:

    grow      hash tables that only grow
    evict     rows leave that no batch of four days has used
    admit     as evict, and an id gets its row in the third batch that has it

For comparison, for each day, a model that is trained anew on the three days before it ("anew"). Then it trains day by day
with checkpoints and deltas, and says how large a day's delta is compared with a full save. Speeds are those of whole runs,
taken in turn, the best of --rounds. --records writes what plot_results.py draws.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

BATCH = 512
GROW = {"eviction": {"interval": 100, "steps_to_live": 1 << 31}, "default_vector": "zeros"}  # it counts, nothing leaves


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")


def day_file(a, day):
    return os.path.join(a.work, f"prepared_{day:02d}", "train.bin")


def make_data(a):
    prefix = os.path.join(a.work, "days")
    if not os.path.exists(prefix + ".meta.json"):
        run(a.bin + "/criteo_synth", "--days", str(a.days), "--turnover", str(a.turnover), "--train", str(a.rows), "--like",
            "criteo", "--cap", str(a.cap), "--seed", "3", "--out", prefix)
    for day in range(a.days):
        out = os.path.join(a.work, f"prepared_{day:02d}")
        if os.path.exists(out + "/manifest.json"):
            continue
        before = ["--continue-from", os.path.join(a.work, f"prepared_{day - 1:02d}")] if day else []
        run(a.bin + "/criteo_prep", "--train", f"{prefix}.day_{day:02d}.tsv", *before, "--save-vocabulary", "--out", out)


def config_of(a, vocabulary):
    last = os.path.join(a.work, f"prepared_{a.days - 1:02d}", "manifest.json")
    table = {"embedding_vec_size": a.width, "combiner": "sum", "max_vocabulary_size_per_gpu": a.capacity, **vocabulary}
    return {
        "solver": {"seed": 1, "lr_policy": "fixed", "display": 100, "gpu": [0], "batchsize": BATCH, "snapshot": 0,
                   "snapshot_prefix": os.path.join(a.work, "snap_")},
        "optimizer": {"type": "Adam", "update_type": "Local",
                      "adam_hparam": {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}},
        "layers": [
            {"name": "data", "type": "Data", "format": "RawAsync", "source": "", "check": "None", "slot_size_array": last,
             "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 13},
             "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 26, "max_nnz": 1,
                         "slot_num": 26}],
             "async_param": {"num_threads": 1, "num_batches_per_thread": 4, "io_block_size": 1048576, "io_depth": 2,
                             "io_alignment": 512, "shuffle": False}},
            {"name": "emb", "type": "LocalizedSlotSparseEmbeddingHash", "bottom": "keys", "top": "emb",
             "sparse_embedding_hparam": table},
            {"name": "bottom1", "type": "FusedInnerProduct", "bottom": "dense", "top": "bottom1",
             "fc_param": {"num_output": 64}},
            {"name": "bottom2", "type": "FusedInnerProduct", "bottom": "bottom1", "top": "bottom2",
             "fc_param": {"num_output": a.width}},
            {"name": "inter", "type": "Interaction", "bottom": ["bottom2", "emb"], "top": "inter"},
            {"name": "top1", "type": "FusedInnerProduct", "bottom": "inter", "top": "top1", "fc_param": {"num_output": 128}},
            {"name": "top2", "type": "FusedInnerProduct", "bottom": "top1", "top": "top2", "fc_param": {"num_output": 64}},
            {"name": "z", "type": "InnerProduct", "bottom": "top2", "top": "z", "fc_param": {"num_output": 1}},
            {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]}


def events(path, kind):
    with open(path) as f:
        return [e for e in map(json.loads, f) if e["event"] == kind]


def follow(a, name, vocabulary, days):
    """One pass over the files of `days`. AUC of each before it is trained on, rows after it, seconds, samples a second."""
    folder = os.path.join(a.work, "run_" + name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder + "/stream")
    for day in days:
        os.symlink(day_file(a, day), f"{folder}/stream/day_{day:02d}.bin")
    open(folder + "/stream/_END", "w").close()
    with open(folder + "/config.json", "w") as f:
        json.dump(config_of(a, vocabulary), f, indent=1)
    metrics = folder + "/metrics.jsonl"
    run(a.bin + "/train", "--config", folder + "/config.json", "--quiet", "--metrics", metrics, "--set",
        f"layers.data.source={folder}/stream", "--set", "layers.data.follow=true", "--set",
        f"solver.max_iter={len(days) * a.rows // BATCH}")
    end = events(metrics, "end")[-1]
    counts = events(metrics, "vocabulary")
    rows = []
    for n in range(len(days)):
        before = [e for e in counts if e["iter"] <= (n + 1) * a.rows // BATCH]
        rows.append(sum(layer["rows"] for layer in before[-1]["layers"]) if before else None)
    return {"auc": [e["auc"] for e in events(metrics, "progressive")], "rows": rows, "seconds": end["seconds"],
            "samples_per_s": end["samples_per_s"]}


def anew(a, day):
    """AUC of `day` by a model trained once on the three days before it, and how long that took."""
    result = follow(a, f"anew_{day:02d}", GROW, range(max(0, day - 3), day + 1))
    return result["auc"][-1]


def deltas(a, vocabulary):
    """Day after day by --resume: bytes of each day's checkpoint and delta."""
    folder = os.path.join(a.work, "run_deltas")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(folder + "/config.json", "w") as f:
        json.dump(config_of(a, vocabulary), f, indent=1)
    sizes = []
    for day in range(a.days):
        manifest = os.path.join(a.work, f"prepared_{day:02d}", "manifest.json")
        model = f"{folder}/model_{day:02d}"
        before = ["--resume", f"{folder}/model_{day - 1:02d}", "--grow", "--save-delta", folder + "/chain"] if day else []
        run(a.bin + "/train", "--config", folder + "/config.json", "--quiet", *before, "--save", model, "--set",
            "solver.num_epochs=1", "--set", f"layers.data.source={day_file(a, day)}", "--set",
            f"layers.data.slot_size_array={manifest}")
        full = {name: os.path.getsize(os.path.join(model, name)) for name in os.listdir(model)}
        links = sorted(os.listdir(folder + "/chain")) if day else []
        link = os.path.join(folder, "chain", links[-1]) if links else None
        sizes.append({"full": sum(full.values()), "weights": full["weights.safetensors"],
                      "delta": sum(os.path.getsize(os.path.join(link, n)) for n in os.listdir(link)) if link else None})
    run(a.bin + "/model_delta", "join", folder + "/chain", "--base", folder + "/model_00", "--out", folder + "/joined")
    with open(folder + "/joined", "rb") as one, open(f"{folder}/model_{a.days - 1:02d}/weights.safetensors", "rb") as other:
        if one.read() != other.read():
            sys.exit("the joined deltas are not the last full save")
    return sizes


def write_records(a, results):
    days = list(range(1, a.days + 1))
    common = {"section": "Ids that come and go", "machine": a.machine, "date": a.date}
    last = {name: results[name]["rows"][-1] for name in ("grow", "evict", "admit")}
    full, delta = results["deltas"][-1]["full"], results["deltas"][-1]["delta"]
    rates = {name: results[name]["samples_per_s"] / results["plain"]["samples_per_s"] for name in ("evict", "admit")}
    rows = {"order": 11, "title": "Rows of the hash tables after each day, thousands", **common,
            "notes": [f"{a.rows:,} rows a day, a tenth of the ids new on each; {results['live_ids']:,} ids live on a day.",
                      "evict: rows leave after four days without use; admit: also, rows from the third batch on."],
            "figures": [
                {"what": "rows of hash tables after ten days, with eviction", "ours": f"{last['evict']:,}",
                 "peer": f"without: {last['grow']:,}", "ratio": f"{last['evict'] / results['live_ids']:.2f} of the live ids"},
                {"what": "rows with eviction and admission from the third batch on", "ours": f"{last['admit']:,}",
                 "peer": f"all admitted: {last['evict']:,}", "ratio": f"{last['admit'] / last['evict']:.2f}"},
                {"what": "a day's delta", "ours": f"{delta / 1e6:.1f} MB", "peer": f"full save: {full / 1e6:.1f} MB",
                 "ratio": f"{delta / full:.2f}"},
                {"what": "training with eviction; with admission too", "ours": "", "peer": "neither",
                 "ratio": "; ".join(f"{rates[n]:.2f}" for n in rates)}],
            "lines": {"unit": "thousand rows", "x": days, "x_label": "day", "from": 0, "step": 200,
                      "lines": [[name] + [round(n / 1000, 1) for n in results[name]["rows"]]
                                for name in ("grow", "evict", "admit")]}}
    auc = {name: results[name]["auc"] for name in ("grow", "evict", "admit", "anew")}
    apart = [n - g for n, g in zip(auc["anew"], auc["evict"]) if n is not None]
    better = [n - g for n, g in zip(auc["admit"][1:], auc["evict"][1:])]
    curves = {"order": 12, "title": "AUC on each day before it is trained on", **common,
              "notes": ["anew: trained once on the three days before."],
              "figures": [
                  {"what": "AUC on the next day, going on day by day", "ours": f"{auc['evict'][-1]:.4f}",
                   "peer": f"trained anew on three days: {auc['anew'][-1]:.4f}",
                   "ratio": f"{min(-x for x in apart):+.4f} to {max(-x for x in apart):+.4f} (difference)"},
                  {"what": "AUC with admission from the third batch on", "ours": f"{auc['admit'][-1]:.4f}",
                   "peer": f"all admitted: {auc['evict'][-1]:.4f}",
                   "ratio": f"{min(better):+.4f} to {max(better):+.4f} (difference)"}],
              "lines": {"unit": "", "x": days[1:], "x_label": "day", "from": 0.72, "step": 0.02,
                        "lines": [[name] + [None if v is None else round(v, 5) for v in auc[name][1:]]
                                  for name in auc]}}
    for name, record in (("daily_rows", rows), ("daily_auc", curves)):
        with open(os.path.join(a.records, name + ".json"), "w") as f:
            json.dump(record, f, indent=1)
            f.write("\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default="build/release/bin")
    ap.add_argument("--work", required=True, help="folder for data and runs; kept")
    ap.add_argument("--days", type=int, default=10)
    ap.add_argument("--rows", type=int, default=300_000, help="of a day")
    ap.add_argument("--turnover", type=float, default=0.1)
    ap.add_argument("--cap", type=int, default=100_000, help="most ids of a column at a time")
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--capacity", type=int, default=3_000_000, help="rows of the tables")
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--json", help="write the figures there")
    ap.add_argument("--records", help="folder for the records of plot_results.py")
    ap.add_argument("--machine", default="")
    ap.add_argument("--date", default="")
    a = ap.parse_args()
    os.makedirs(a.work, exist_ok=True)
    make_data(a)
    day = a.rows // BATCH
    leave = {"interval": 100, "steps_to_live": 4 * day}
    arms = {"plain": {}, "grow": GROW, "evict": {"eviction": leave, "default_vector": "zeros"},
            "admit": {"eviction": leave, "default_vector": "zeros", "admission": {"type": "count", "threshold": 3}}}
    with open(os.path.join(a.work, "days.meta.json")) as f:
        live = sum(min(a.cap, n) for n in json.load(f)["model"]["cards"])
    results = {"rows_of_a_day": a.rows, "turnover": a.turnover, "cap": a.cap, "batch": BATCH, "live_ids": live}
    for _ in range(a.rounds):
        for name, vocabulary in arms.items():
            result = follow(a, name, vocabulary, range(a.days))
            if name not in results or results[name]["samples_per_s"] < result["samples_per_s"]:
                results[name] = result
            print(name, json.dumps(result), flush=True)
    results["anew"] = {"auc": [None] * 3 + [anew(a, d) for d in range(3, a.days)]}
    print("anew", json.dumps(results["anew"]), flush=True)
    results["deltas"] = deltas(a, arms["evict"])
    print("deltas", json.dumps(results["deltas"]), flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(results, f, indent=1)
    if a.records:
        write_records(a, results)


if __name__ == "__main__":
    main()
