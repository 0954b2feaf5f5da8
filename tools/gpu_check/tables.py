"""Benchmark numbers as the report's tables."""
import json
import os


def read_numbers(path):
    """The JSON objects of a file, one a line; a last line that was cut off is left out."""
    numbers = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    numbers.append(json.loads(line))
                except ValueError:
                    break
    return numbers


def bounds_text(r):
    """Both bounds of a run of train_bench, and how near it came."""
    return (f"bounds: {r['floor_ms']:.4f} ms in turn ({100 * r['floor_ms'] / r['ms']:.0f} %), "
            f"{r['overlap_floor_ms']:.4f} overlapped ({100 * r['overlap_floor_ms'] / r['ms']:.0f} %)")


def what_ran(r):
    """A run of train_bench in words."""
    shape = "" if r["shape"] == "mlperf" else f", {r['shape']}"
    optimizer = "" if r["optimizer"] == "SGD" else f", {r['optimizer']}"
    return f"{r['precision']}{shape}{optimizer}{', hashed' if r['hashed'] else ''}"


def results_table(ours, theirs):
    """A row for each run of train_bench, compared with the fastest variant of PyTorch with the same keys and batch."""
    lines = ["| run | keys | batch | samples/s | without graph | host, us | ms | bound in turn, ms | % | overlapped, ms | % "
             "| evaluation, samples/s | lookups and updates/s | PyTorch, samples/s | ratio |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in ours:
        peers = [t for t in theirs if "samples_per_s" in t and (t["alpha"], t["batch"]) == (r["alpha"], r["batch"])
                 and r["shape"] in ("mlperf", "tiny") and not r["hashed"] and t["precision"] == r["precision"].replace("fp16", "bf16")]
        best = max(peers, key=lambda t: t["samples_per_s"], default=None)
        peer = ratio = "-"
        if best:
            how = best["spelling"] + (", compiled" if best["compiled"] else "") + (", graph" if best["graph"] else "")
            peer, ratio = f"{best['samples_per_s']:,} ({how})", f"{r['samples_per_s'] / best['samples_per_s']:.2f}"
        eager = r["samples_per_s_without_graph"]
        keys = "uniform" if r["alpha"] == 0 else f"Zipf {r['alpha']}"
        lines.append(
            f"| {what_ran(r)} | {keys}, {r['distinct_rows_per_lookup']:.2f} distinct | {r['batch']:,} "
            f"| {r['samples_per_s']:,} | {f'{eager:,}' if eager else '-'} | {r['host_us']:.1f} | {r['ms']:.4f} "
            f"| {r['floor_ms']:.4f} | {100 * r['floor_ms'] / r['ms']:.0f} "
            f"| {r['overlap_floor_ms']:.4f} | {100 * r['overlap_floor_ms'] / r['ms']:.0f} "
            f"| {r['eval_samples_per_s']:,} | {r['lookups_per_s'] / 1e9:.2f} G "
            f"| {peer} | {ratio} |")
    first = ours[0]
    products = {r["precision"]: r["tflops"] for r in ours}
    return lines + ["", f"Tables of up to {first['cap']:,} rows; copy {first['copy_gbs']:,.0f} GB/s, from host memory "
                    f"{first['host_copy_gbs']:.1f}; the best matrix products in TFLOP/s: "
                    + ", ".join(f"{precision} {rate:.0f}" for precision, rate in products.items())]


def step_table(r):
    """The steps of one run, each alone."""
    lines = [f"Steps, {what_ran(r)}, batch {r['batch']:,}, alpha {r['alpha']}; {r['ms']:.4f} ms, {bounds_text(r)}:", "",
             "| step | ms | MB | GFLOP | GB/s | TFLOP/s | % of lower bound | products: epilogue, verdict, algorithm |",
             "|---|---|---|---|---|---|---|---|"]
    for s in r["train_steps"] + [dict(e, name="evaluation: " + e["name"]) for e in r["eval_steps"]]:
        lines.append(f"| {s['name']} | {s['ms']:.4f} | {s['bytes'] / 1e6:.1f} | {s['flops'] / 1e9:.1f} "
                     f"| {s['bytes'] / s['ms'] / 1e6:.0f} | {s['flops'] / s['ms'] / 1e9:.0f} "
                     f"| {100 * s['floor_ms'] / s['ms']:.0f} | {'; '.join(map(product_text, s['products']))} |")
    return lines


def product_text(p):
    """Which of cuBLASLt's epilogues (1: none) and algorithms a product has; but for "take" a kernel does its work."""
    # The words of cublasLtMatmulAlgo_t without zeros around them.
    words = ",".join(word.lstrip("0") or "0" for word in p["algorithm"].split(","))
    verdict = "plain" if p["epilogue"] == 1 else f"{p['epilogue']} {p['verdict']}"
    return f"{verdict} {words.rstrip(',0')}".strip()
