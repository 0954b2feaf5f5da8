"""Visits to a card: which parts, in which order and how long each, what was predicted of them, and what was seen.

A part that fails or hangs costs its own time. What is most likely to hang a GPU comes last.
"""
import collections
import dataclasses
import fnmatch
import json
import os
import re
import select
import statistics
import subprocess
import time

import bench
import golden
import insight
import sanitizer
import unit_tests
from checks import Failed, NotRun
from machine import graphics_card
from processes import end, output_of, within
from tables import read_numbers

GATE = ["fully_connected_library_test", "fully_connected_test", "mixed_precision_test", "matmul_test",
        "embedding_kernels_test", "sparse_update_kernels_test", "far_rows_test"]
SANITIZED = [("racecheck", "sparse_update_kernels_test"), ("racecheck", "interaction_test"), ("racecheck", "routing_test"),
             ("synccheck", "interaction_test"), ("memcheck", "fully_connected_test")]
BATCHES = (32768, 16384, 8192, 4096, 2048, 1120, 640)
SHORT = {"cap": bench.SOME_ROWS, "seconds": 0.5, "step_seconds": 0.005, "no_eager": True}


def gate(session):
    """Whether this commit works here at all."""
    unit_tests.run(session, GATE)
    golden.gate(session)


def iterations(session):
    for precision, alpha in (("bf16", 1.05), ("bf16", 0), ("tf32", 1.05)):
        bench.train_bench(session, f"iteration-{precision}-alpha-{alpha}", precision, alpha, 65536, no_eager=alpha == 0 or
                          precision != "bf16")


def batches(session):
    for batch in (16,) if session.small else BATCHES:
        bench.train_bench(session, f"iteration-bf16-batch-{batch}", "bf16", 1.05, batch, **SHORT)


def dcnv2(session):
    for batch in (8192,) if session.small else (8192, 65536):
        for optimizer in ("AdaGrad", "RowWiseAdaGrad"):
            bench.train_bench(session, f"dcnv2-{optimizer}-batch-{batch}", "bf16", 1.05, batch, shape="dcnv2",
                              optimizer=optimizer, **SHORT, batches=4)


def hashed(session):
    """Hash tables beside tables of the same size; all keys known, and most of them new."""
    bench.train_bench(session, "tables-beside-hashed", "bf16", 1.05, 65536, **SHORT)
    bench.train_bench(session, "hashed-known-keys", "bf16", 1.05, 65536, **SHORT, hashed=True)
    bench.train_bench(session, "hashed-new-keys", "bf16", 0, 65536, **dict(SHORT, seconds=0.1), hashed=True, batches=64)


def exchanges(session):
    for ranks in (2,) if session.small else (1, 2, 4):
        for alpha in (1.05, 0):
            session.checks.check(f"exchanges-{ranks}-ranks-alpha-{alpha}",
                                 lambda run=(ranks, alpha): bench.exchanges(session, *run))
        session.checks.check(f"exchanges-dcnv2-{ranks}-ranks", lambda n=ranks: bench.exchanges(session, n, 1.05, "dcnv2"))
        if ranks > 1:
            session.checks.check(f"collectives-{ranks}-ranks", lambda n=ranks: bench.collectives(session, n))


def used_megabytes():
    """Of the first GPU; 0 where nothing says it."""
    text = output_of(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]).split()
    return int(text[0]) if text and text[0].isdigit() else 0


def serving(session):
    """Requests of few and of many samples at random: how late the latest answer is, and what memory it takes."""
    def model():
        golden.unpack(session)
        folder = session.scratch("golden/dlrm_plain")
        command = [session.program("train"), "--config", os.path.join(folder, "config.json"), "--device", "cuda", "--quiet",
                   "--set", f"solver.max_iter={3 if session.small else 120}", "--save", session.scratch("served")]
        session.checks.program(command, 60)

    def load(samples, most, connections):
        log = open(session.checks.log, "ab")  # pylint: disable=consider-using-with
        command = [session.program("serve"), "--model", "m=" + session.scratch("served"), "--port", "0", "--device", "cuda",
                   "--max-batch", "512", "--quiet"]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                                  env=session.checks.env, start_new_session=True)
        try:
            port, until = None, time.monotonic() + min(within(60), session.checks.left())
            while not port and server.poll() is None and time.monotonic() < until:
                if select.select([server.stdout], [], [], 0.1)[0]:
                    port = re.search(r":(\d+)\s*$", server.stdout.readline())
            if not port:
                raise Failed("the server does not say its port")
            before, found = used_megabytes(), session.kept("serve_bench.jsonl")
            session.checks.program([session.program("serve_bench"), "--port", port[1], "--model", "m", "--samples", samples,
                                    "--most-samples", most, "--connections", connections, "--warm-up", 0,
                                    "--seconds", 0.2 if session.small else 8], 30, out=found)
            last, after = read_numbers(found)[-1], used_megabytes()
        finally:
            end(server)
            log.close()
        return [f"{last['requests_per_s']:,.0f} requests/s; p50 {last['p50_ms']:.2f} ms, p99 {last['p99_ms']:.2f}, the latest "
                f"{last['max_ms']:.2f}; memory of the GPU {before:,} MB before, {after:,} after"]

    if not session.checks.check("served-model", model):
        session.checks.skip("serving", "see served-model")
        return
    for samples, most, connections in ((1, 1, 64), (1, 512, 8)):
        session.checks.check(f"serving-{samples}-to-{most}-samples", lambda run=(samples, most, connections): load(*run))


def tagged_tests(session, name, tag, limit, **env):
    """Tests that run on a GPU only when they are asked for."""
    def run():
        try:
            session.checks.program([session.program("cuda_tests"), f"[{tag}]", "-d", "yes"], limit,
                                   env=dict(session.checks.env, **env))
        finally:  # Catch2 3 fails where there is no such test, Catch2 2 only says so
            if session.checks.logged("No tests ran") or session.checks.logged("No test cases matched"):
                raise NotRun("not built here")

    session.checks.check(name, run)


def nccl(session):
    tagged_tests(session, "nccl-of-one-rank", "nccl-one-rank", 60, HLITE_REPLAYS="3" if session.small else "1000")


def shared_gpu(session):
    """Graphs of ranks that wait for each other on one GPU, which may hang where the driver queues one behind the other."""
    captures = {"HLITE_CAPTURE_SHARED_GPU": "1", "HLITE_COMM_TIMEOUT": "20", "CUDA_DEVICE_MAX_CONNECTIONS": "32",
                "CUDA_MODULE_LOADING": "EAGER"}

    def same_bits(ranks):
        settings = (f"solver.gpu={[[0]] * ranks}", golden.BETWEEN)
        lines = golden.train_golden(session, "dlrm_fused", f"{ranks}-in-turn", golden.FLOAT, *settings)
        golden.train_golden(session, "dlrm_fused", f"{ranks}-captured", golden.FLOAT, *settings,
                            env=dict(session.checks.env, **captures))
        golden.same_bits(*(session.scratch(f"dlrm_fused-{ranks}-{how}.safetensors") for how in ("in-turn", "captured")))
        return lines

    if session.checks.check("golden-data", lambda: golden.unpack(session)):
        for ranks in (2, 4):
            session.checks.check(f"golden-dlrm_fused-{ranks}-captured-ranks", lambda n=ranks: same_bits(n))
    tagged_tests(session, "captured-ranks-of-one-gpu", "captured-ranks", 90, **captures, HLITE_REPLAYS="5" if session.small else "100000")


def against(session):
    """This build and another, in turn, three times: the median of each."""
    if not session.other:
        session.checks.skip("against", "--other DIR says which programs to compare with")
        return
    theirs = dataclasses.replace(session, bin=session.other)
    times = collections.defaultdict(list)  # by batch and build: a run that failed leaves none
    for batch in (32,) if session.small else (65536, 8192, 4096, 1120):
        for turn in range(1 if session.small else 3):
            for name, which in (("this", session), ("other", theirs)):
                before = len(read_numbers(session.kept("train_bench.jsonl")))
                bench.train_bench(which, f"{name}-batch-{batch}-turn-{turn + 1}", "bf16", 1.05, batch,
                                  **dict(SHORT, step_seconds=0.0001))
                times[batch, name] += [row["ms"] for row in read_numbers(session.kept("train_bench.jsonl"))[before:]]

    def medians():
        lines = []
        for batch in sorted({batch for batch, _ in times}, reverse=True):
            if not times[batch, "this"] or not times[batch, "other"]:
                lines.append(f"batch {batch:,}: one of the two has no run")
                continue
            this, other = (statistics.median(times[batch, name]) for name in ("this", "other"))
            lines.append(f"batch {batch:,}: {this:.4f} ms, the other {other:.4f}: {other / this:.3f} times as fast")
        return lines

    session.checks.check("medians", medians, late=True)


PARTS = {
    "gate": gate, "iterations": iterations, "batches": batches, "dcnv2": dcnv2, "traces": insight.traces,
    "products": lambda session: insight.probes(session, ["P1"], 80),
    "probes": lambda session: insight.probes(session, ["P2", "P3", "P4", "P5", "P6", "P7"], 40),
    "ncu": insight.ncu, "tables": lambda session: (bench.table(session), insight.table(session)),
    "exchanges": exchanges, "hashed": hashed, "tiers": bench.tiers, "serving": serving,
    "sanitized": lambda session: sanitizer.run(session, SANITIZED), "nccl": nccl, "shared-gpu": shared_gpu,
    "against": against}

# (part, seconds). The sum is what a command of ten minutes leaves to its parts.
VISITS = {
    "A": [("gate", 50), ("iterations", 60), ("batches", 50), ("dcnv2", 75), ("traces", 50), ("products", 90), ("probes", 50),
          ("ncu", 125), ("tables", 10)],
    "B": [("exchanges", 130), ("hashed", 50), ("tiers", 50), ("serving", 50), ("sanitized", 130),
          ("nccl", 40), ("shared-gpu", 90), ("tables", 10)],
    "C": [("gate", 50), ("against", 300), ("tables", 10)]}
KEPT = ("train_bench.jsonl", "probe.jsonl", "trace.jsonl.gz", "ncu.csv", "exchange_bench.jsonl", "comm_bench.jsonl",
        "serve_bench.jsonl", "row_transfer.txt")


# ---- Predictions ----

def predictions():
    """What is expected of a visit: predictions.json, written down before it."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "predictions.json"), encoding="utf-8") as file:
        return json.load(file)


def value_of(row, what):
    """"ms": that number. "steps a b*": the sum of all training steps of these names, or of exchange_bench's; Failed where
    no step has one of them. "a/b": a quotient. None where there is nothing."""
    if what.startswith("steps "):
        names, steps = what.split()[1:], row.get("train_steps", row.get("steps", []))
        for name in names:
            if not fnmatch.filter([s["name"] for s in steps], name):
                raise Failed(f"expected a step {name}, found {', '.join(s['name'] for s in steps)}")
        return sum(s["ms"] for s in steps if any(fnmatch.fnmatch(s["name"], name) for name in names))
    if "/" in what:
        over, under = (value_of(row, part) for part in what.split("/"))
        return over / under if over is not None and under else None
    value = row.get(what)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def seen(session, prediction):
    """The last number in the file that the prediction is about; None where there is none."""
    rows = [row for row in read_numbers(session.kept(prediction["file"]))
            if all(row.get(key) == value for key, value in prediction["where"].items())]
    values = [value for row in rows if (value := value_of(row, prediction["value"])) is not None]
    return values[-1] * prediction.get("times", 1) if values else None


def compare(session, part):
    """A table of what was predicted of the part beside what was seen; a prediction of a step that no plan has fails."""
    rows, wrong = [], []
    for p in predictions():
        if p["part"] != part:
            continue
        value, (low, high) = None, p["predicted"]
        try:
            value = seen(session, p)
            verdict = ("not seen" if value is None else "as predicted" if low * 0.95 <= value <= high * 1.05 else
                       "below" if value < low else "above")
        except Failed as why:
            verdict = "no such step"
            wrong.append(Failed(f"prediction of {p['what']}: {why}"))
        expected = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        rows.append(f"| {p['what']} | {p['unit']} | {p.get('before', '-')} | {expected} "
                    f"| {'-' if value is None else f'{value:.4g}'} | {verdict} |")
    if rows:
        for line in ["", "| what | unit | before | predicted | seen | |", "|---|---|---|---|---|---|", *rows, ""]:
            session.checks.line(line)
    for why in wrong:
        session.checks.fail(part, why)


def run(session, visit):
    """All parts of a visit; each with its time, whatever became of the one before."""
    for name in (*KEPT, "pytorch.jsonl"):
        if os.path.exists(session.kept(name)):
            os.remove(session.kept(name))
    for part, seconds in VISITS[visit]:
        session.checks.begin(part, seconds)
        try:
            PARTS[part](session)
            compare(session, part)
        except Exception as why:  # of the part itself, outside of its checks
            session.checks.fail(part, why)
        yield part
    session.checks.begin("the card")
    session.checks.check("card", lambda: [str(graphics_card() or "no nvidia-smi")], late=True)
