#!/usr/bin/env python3
"""Training with tables beyond memory compared with training in memory, on the CPU with a disk.

    tests/bench/tiers.py --bin build/release/bin --disk DIR [--shapes kaggle,mlperf,dcnv2] [--resident 100,30,10,5]
                         [--rounds 2] [--svg FILE] [--json FILE]

For each shape it writes Criteo-like data (criteo_synth --like criteo) and trains one epoch in
memory and with each --resident percentage of the rows in memory, in turn. It measures the last
third of each run. It prints the ratio of iteration times and the bound: the larger of the in-memory
iteration time and the time to move the bytes at the rates that fio reaches in the same folder
(random 4 KiB reads, sequential 1 MiB writes, O_DIRECT, depth 64).

Moved bytes are differences of the process's counters in /proc/PID/io between two "train" events,
less the data reader's 160 bytes per sample (so the data's file system must support O_DIRECT).
The machine must be quiet. Needs fio.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH = 2048
# Config of the network, --cards and --cap of criteo_synth, values per row, iterations.
SHAPES = {
    "kaggle": {"config": "kaggle_dlrm.json", "cards": "kaggle", "cap": None, "width": 16, "iterations": 3000},
    "mlperf": {"config": "mlperf_dgx_a100.json", "cards": "terabyte", "cap": 2_000_000, "width": 128, "iterations": 900},
    "dcnv2": {"config": "mlperf_dcnv2.json", "cards": "terabyte", "cap": 2_000_000, "width": 128, "iterations": 450},
}
# Bytes of memory (docs/tables_beyond_memory.md): the map, per row of the table; overhead of a cached row; all rows in transit.
MAP_BYTES, CACHE_LINE_BYTES, IN_TRANSIT_BYTES = 4, 12, 26e6


def measure_disk(folder, pattern, block, seconds=8):
    """Runs fio; returns bytes per second."""
    out = subprocess.run(
        ["fio", "--name=rate", f"--directory={folder}", "--size=4g", f"--rw={pattern}", f"--bs={block}", "--direct=1",
         "--ioengine=libaio", "--iodepth=64", f"--runtime={seconds}", "--time_based", "--output-format=json"],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    job = json.loads(out[out.index("{"):])["jobs"][0]
    return job["write" if pattern == "write" else "read"]["bw_bytes"]


def disk_rates(folder):
    rates = {"read": measure_disk(folder, "randread", "4k"), "write": measure_disk(folder, "write", "1m")}
    for name in os.listdir(folder):
        if name.startswith("rate."):
            os.unlink(os.path.join(folder, name))
    return rates


def make_data(a, name, shape):
    """Raw records of one epoch and their slot sizes."""
    prefix = os.path.join(a.data, name)
    if not os.path.exists(prefix + ".manifest.json"):
        command = [os.path.join(a.bin, "criteo_synth"), "--like", "criteo", "--cards", shape["cards"], "--format", "raw",
                   "--train", str(shape["iterations"] * BATCH), "--test", str(BATCH), "--out", prefix]
        if shape["cap"]:
            command += ["--cap", str(shape["cap"])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(prefix + ".manifest.json") as f:
        return prefix, json.load(f)["slot_size_array"]


def make_config(a, name, shape):
    prefix, sizes = make_data(a, name, shape)
    with open(os.path.join(ROOT, "configs", shape["config"])) as f:
        config = json.load(f)
    config["solver"] = {
        "lr_policy": "fixed", "display": a.display, "max_iter": shape["iterations"], "gpu": [0], "batchsize": BATCH,
        "batchsize_eval": BATCH, "snapshot": 10_000_000, "snapshot_prefix": "./", "seed": 1}
    config["optimizer"] = {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.1}}
    data, embedding = config["layers"][:2]
    data.update({"source": prefix + ".train.bin", "eval_source": prefix + ".test.bin", "slot_size_array": sizes})
    for key in ("num_samples", "eval_num_samples", "cache_eval_data"):
        data.pop(key, None)
    data["async_param"] = {"num_threads": 2, "num_batches_per_thread": 4, "io_block_size": 327680, "io_depth": 2,
                           "io_alignment": 512, "shuffle": False}
    data["sparse"] = [{"top": data["sparse"][0]["top"], "type": "DistributedSlot", "max_feature_num_per_sample": 26,
                       "max_nnz": 1, "slot_num": 26}]
    embedding["sparse_embedding_hparam"]["slot_size_array"] = sizes
    path = os.path.join(a.data, name + ".json")
    with open(path, "w") as f:
        json.dump(config, f)
    return path, sum(sizes)


def io_counters(pid):
    """The counters of /proc/PID/io."""
    with open(f"/proc/{pid}/io") as f:
        return {k: int(v) for k, v in (line.split(": ") for line in f)}


def train(a, config, memory):
    """Runs a training. Returns, for the last third: time and bytes moved per iteration, and percentages of resident lookups."""
    command = [os.path.join(a.bin, "train"), "--config", config, "--threads", str(a.threads), "--device", "cpu",
               "--metrics", "/dev/stdout"]
    if memory:
        command += ["--set", "solver.embedding_memory=" + json.dumps(memory)]
    with tempfile.TemporaryFile("w+") as err, \
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True) as run:
        train_events, layers = [], []
        for line in run.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a progress line
            if event.get("event") == "train":
                train_events.append((event["iter"], event["samples_per_s"], io_counters(run.pid)))
            elif event.get("event") == "tables":
                layers = event["layers"]
        run.wait()
        err.seek(0)
        text = err.read()
    if run.returncode != 0:
        sys.exit(text)
    last = train_events[len(train_events) * 2 // 3:]
    iterations = last[-1][0] - last[0][0]
    def per_iteration(key):
        return (last[-1][2][key] - last[0][2][key]) / iterations
    return {"ms": statistics.median(1e3 * BATCH / rate for _, rate, _ in last[1:]),
            "read": per_iteration("read_bytes") - 160 * BATCH, "written": per_iteration("write_bytes"),
            "resident": [100 * layer["resident_share"] for layer in layers],
            "expected": [100 * layer["expected_resident_share"] for layer in layers if "expected_resident_share" in layer]}


def percent(shares):
    return ", ".join(f"{share:.1f}" for share in shares) + " %" if shares else "unknown"


def measure(a, name, rates):
    shape = SHAPES[name]
    config, rows = make_config(a, name, shape)
    record = 4 * shape["width"]
    memories = {None: None}  # solver.embedding_memory of each share; None trains in memory
    for share in a.resident:
        memory = (rows * MAP_BYTES + rows * share / 100 * (record + CACHE_LINE_BYTES) + IN_TRANSIT_BYTES) / 1e9
        memories[share] = {"host_gb": round(memory, 6), "disk": a.disk}
    runs = {share: [] for share in memories}
    for _ in range(a.rounds):
        for share, memory in memories.items():
            runs[share].append(train(a, config, memory))
    results = []
    for share in a.resident:
        ratios = [beyond["ms"] / inside["ms"] for beyond, inside in zip(runs[share], runs[None])]
        best = min(runs[share], key=lambda run: run["ms"])
        base = statistics.median(run["ms"] for run in runs[None])
        transfer_ms = 1e3 * (best["read"] / rates["read"] + best["written"] / rates["write"])
        ms = statistics.median(run["ms"] for run in runs[share])
        results.append({"shape": name, "resident_rows": share, "rows": rows, "resident_lookups": best["resident"],
                        "expected_lookups": best["expected"],
                        "memory_ms": base, "ms": ms, "ratio": statistics.median(ratios), "ratios": ratios,
                        "read_bytes": best["read"], "written_bytes": best["written"], "moves_ms": transfer_ms,
                        "over_bound": ms / max(base, transfer_ms)})
        print(f"{name}, {share} % of {rows} rows: {ms:.1f} ms, in memory {base:.1f}, transfer at the disk's rates {transfer_ms:.1f} "
              f"({best['read'] / 1e6:.2f} MB read, {best['written'] / 1e6:.2f} MB written); time over memory "
              f"{statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f}), over the bound "
              f"{results[-1]['over_bound']:.2f}; resident lookups {percent(best['resident'])}, expected "
              f"{percent(best['expected'])}", flush=True)
    return results


def plot(results, path):
    """Speed relative to training in memory, over the share of rows in memory."""
    width, height, left, top, right, bottom = 560, 300, 60, 20, 130, 50
    colours = ["#1f77b4", "#d9730d", "#2a8a4a"]
    shares = sorted({r["resident_rows"] for r in results})
    def x(share):
        return left + (width - left - right) * shares.index(share) / max(1, len(shares) - 1)
    def y(speed):
        return top + (height - top - bottom) * (1 - speed / 1.1)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for speed in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(speed):.1f}" y2="{y(speed):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(speed) + 4:.1f}" text-anchor="end">{speed}</text>')
    for share in shares:
        out.append(f'<text x="{x(share):.1f}" y="{height - bottom + 18}" text-anchor="middle">{share} %</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">rows in memory</text>'
               f'<text x="14" y="{(top + height - bottom) / 2}" text-anchor="middle" transform="rotate(-90 14 '
               f'{(top + height - bottom) / 2})">speed, all rows in memory = 1</text>')
    for n, name in enumerate(dict.fromkeys(r["shape"] for r in results)):
        points = sorted((r["resident_rows"], 1 / r["ratio"]) for r in results if r["shape"] == name)
        line = " ".join(f"{x(share):.1f},{y(speed):.1f}" for share, speed in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colours[n % 3]}" stroke-width="2"/>')
        out += [f'<circle cx="{x(share):.1f}" cy="{y(speed):.1f}" r="3" fill="{colours[n % 3]}"/>'
                for share, speed in points]
        out.append(f'<text x="{width - right + 10}" y="{top + 30 + 20 * n}" fill="{colours[n % 3]}">{name}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default="build/release/bin")
    ap.add_argument("--disk", required=True, help="folder on a local disk")
    ap.add_argument("--data", help="folder for the data; default: that of --disk")
    ap.add_argument("--shapes", default="kaggle,mlperf,dcnv2")
    ap.add_argument("--resident", default="100,30,10,5", help="per cent of the rows")
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--display", type=int, default=50, help="iterations between the events that are measured")
    ap.add_argument("--json", help="write the results to this file")
    ap.add_argument("--svg", help="draw speeds into this file")
    a = ap.parse_args()
    a.data = a.data or a.disk
    a.resident = [float(share) for share in a.resident.split(",")]
    rates = disk_rates(a.disk)
    print(f"disk: {rates['read'] / 1e6:.0f} MB/s read in 4 KiB at random, {rates['write'] / 1e6:.0f} MB/s written")
    results = [result for name in a.shapes.split(",") for result in measure(a, name, rates)]
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"disk": rates, "results": results}, f, indent=1)
    if a.svg:
        plot(results, a.svg)


if __name__ == "__main__":
    main()
