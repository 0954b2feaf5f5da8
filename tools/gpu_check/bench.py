"""The benchmarks: whole iterations, the embedding alone, ranks that share the GPU, training from a file, rows beyond
the GPU's memory, and whole iterations in PyTorch."""
import array
import json
import os
import random
import sys

from checks import Failed, NotRun
from processes import output_of
from tables import bounds_text, read_numbers, results_table, step_table
from workload import config

# Precision, skew of the keys (0: uniform), batch.
RUNS = [("bf16", 1.05, 65536), ("bf16", 0, 65536), ("bf16", 1.05, 4096), ("tf32", 1.05, 65536), ("tf32", 0, 65536),
        ("fp16", 1.05, 65536), ("fp16", 0, 65536)]
SMALL_RUNS = [("bf16", 1.05, 32), ("tf32", 0, 32)]
ALL_ROWS = 40_000_000      # of a table: with all of Criteo Terabyte's, tables take 96 GB
SOME_ROWS = 10_000_000
CARD_FOR_ALL = 110_000     # MB
BF16 = "solver.precision=bf16"


def rows_of_tables(session):
    if session.small:
        return 100
    return ALL_ROWS if session.card_megabytes >= CARD_FOR_ALL else SOME_ROWS


SMALL_SIZES = {"shape": "tiny", "seconds": 0.05, "step-seconds": 0.001, "batches": 2, "gemm-edge": 32, "copy-bytes": 65536}


def train_bench(session, name, precision, alpha, batch, **options):
    """A check of this name; numbers go to train_bench.jsonl. options: those of train_bench, _ for - and True or False for a flag."""
    def measure():
        how = {"shape": "mlperf", "seconds": 2, "cap": rows_of_tables(session), "batch": batch,
               **{key.replace("_", "-"): value for key, value in options.items()}}
        if session.small:
            how.update(SMALL_SIZES, cap=100, batch=min(batch, 32))
        command = [session.program("train_bench"), "--device", "cuda", "--precision", precision, "--alpha", alpha]
        for key, value in how.items():
            if value is not False:
                command += ["--" + key] if value is True else ["--" + key, value]
        numbers = session.kept("train_bench.jsonl")
        session.checks.program(command, 60, out=numbers)
        last = read_numbers(numbers)[-1]
        return [f"{last['samples_per_s']:,} samples/s, {last['ms']:.4f} ms, {bounds_text(last)}"]

    return session.checks.check(name, measure)


def whole_iterations(session):
    for precision, alpha, batch in SMALL_RUNS if session.small else RUNS:
        train_bench(session, f"train_bench-{precision}-alpha-{alpha}-batch-{batch}", precision, alpha, batch)


def pytorch(session):
    """Runs as this machine's python3 does: with its own libraries, not with ours."""
    sees = output_of([sys.executable, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"], 60)
    if not sees:
        raise NotRun("python3 has no PyTorch")
    if "True" not in sees:
        raise NotRun(f"PyTorch {sees.split()[0]} sees no GPU")
    numbers, env = session.kept("pytorch.jsonl"), dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    batch, seconds, budget = (32, 0.05, 20) if session.small else (65536, 1, 150)
    command = [sys.executable, os.path.join(session.root, "tests/bench/pytorch_gpu.py"), "--shape", "mlperf",
               "--cap", rows_of_tables(session), "--batch", batch, "--seconds", seconds, "--budget", budget]
    try:
        session.checks.program(command, budget + 40, out=numbers, env=env)
    except (NotRun, Failed):
        if not any("samples_per_s" in line for line in read_numbers(numbers)):
            raise  # what it has printed until its time was over counts
    return [f"{len(read_numbers(numbers))} variants"]


def table(session):
    lines = []

    def put_together():
        ours = read_numbers(session.kept("train_bench.jsonl"))
        if not ours:
            raise NotRun("train_bench has left no results")
        theirs = read_numbers(session.kept("pytorch.jsonl"))
        lines.extend(["", *results_table(ours, theirs), ""])
        for run in ours:
            lines.extend([*step_table(run), ""])

    session.checks.check("table", put_together, late=True)
    for line in lines:
        session.checks.line(line)


def embedding(session, cap, alpha):
    command = [session.program("gpu_embedding_bench"), "--cap", cap, "--alpha", alpha]
    if session.small:
        command += ["--batch", "32", "--width", "16", "--rounds", "1", "--samples", "1000"]
    found = session.scratch(f"embedding-{cap}-{alpha}.txt")
    session.checks.program(command, 60, out=found)
    with open(found, encoding="utf-8") as text:
        return text.read().splitlines()


def collectives(session, ranks):
    """Ranks that take the GPUs in turn: of one GPU this is what a collective costs without a link."""
    command = [session.program("comm_bench"), "--device", "cuda", "--ranks", ranks]
    command += ["--sizes", "1K,4K", "--seconds", "0.001"] if session.small else ["--seconds", "0.2"]
    numbers = session.kept("comm_bench.jsonl")
    session.checks.program(command, 60, out=numbers)
    calls = [call for call in read_numbers(numbers)[-1]["calls"] if call["name"] in ("all_reduce", "all_to_all_v")]
    return [f"{call['name']} of {call['bytes']:,} bytes: {call['us']:.1f} us"
            + (f", in a graph {call['graph_us']:.1f}" if call["graph_us"] else "") for call in calls]


def exchanges(session, ranks, alpha, shape="mlperf"):
    command = [session.program("exchange_bench"), "--device", "cuda", "--ranks", ranks, "--alpha", alpha]
    command += (["--shape", "tiny", "--cap", "100", "--batch", "32", "--seconds", "0.001"] if session.small else
                ["--shape", shape, "--precision", "bf16"])
    numbers = session.kept("exchange_bench.jsonl")
    session.checks.program(command, 60, out=numbers)
    last = read_numbers(numbers)[-1]
    steps = ", ".join(f"{step['name']} {step['ms']:.3f}" for step in last["steps"])
    return [f"iteration {last['iteration_ms']:.3f} ms; {steps}"]


def training_file(session, rows=None):
    command = [session.program("criteo_synth"), "--test", "0", "--like", "criteo", "--cards", "terabyte",
               "--format", "raw", "--out", session.scratch("c"), "--force"]
    command += ["--train", 2000 if session.small else rows or session.rows, "--cap", rows_of_tables(session)]
    session.checks.program(command, 90)
    shape = ((32, 12, [16, 8], [16], 8) if session.small else
             (65536, 600, [512, 256, 128], [1024, 1024, 512, 256], 128))
    with open(session.scratch("mlperf.json"), "w", encoding="utf-8") as file:
        json.dump(config(*shape), file)


def told_by_gpus(events):
    """What the driver said of each GPU while it trained, in words."""
    looks = [gpu for event in events if event["event"] == "gpu" for gpu in event["gpus"]]
    lines = []
    for device in sorted({gpu["device"] for gpu in looks}):
        own = [gpu for gpu in looks if gpu["device"] == device]
        ranges = [f"{min(values):,.0f} to {max(values):,.0f} {unit}"
                  for name, unit in (("watts", "W"), ("sm_mhz", "MHz"), ("celsius", "C"))
                  if (values := [gpu[name] for gpu in own if name in gpu])]
        slowed = sorted({reason for gpu in own for reason in gpu["slowed_by"]})
        lines.append(f"GPU {device}: {', '.join(ranges) or 'no readings'}; slowed by {', '.join(slowed) or 'nothing'}")
    return lines or ["NVML reported nothing"]


def train(session, name, *settings):
    """The events of a run on what training_file() has written."""
    metrics = session.scratch(f"mlperf-{name}.jsonl")
    command = [session.program("train"), "--config", session.scratch("mlperf.json"), "--device", "cuda",
               "--metrics", metrics]
    session.checks.program(command + [word for setting in settings for word in ("--set", setting)], 90)
    return read_numbers(metrics)


def best_rate(events):
    return max(e["samples_per_s"] for e in events if e["event"] == "train")


def from_file(session, precision, setting):
    events = train(session, precision, setting)
    rates = [e["samples_per_s"] for e in events if e["event"] == "train"]
    last = [e for e in events if e["event"] == "eval"][-1]  # the first one reads the set
    return [f"{max(rates):,.0f} samples/s at best, {rates[-1]:,.0f} at the end; evaluation of {last['samples']:,} "
            f"samples with exact AUC: {last['samples'] / last['seconds']:,.0f} samples/s", *told_by_gpus(events)]


def row_transfer(session):
    """The two ways in which rows can cross the bus."""
    command = [session.program("row_transfer_bench")]
    command += (["--rows", 300, "--missing", 100, "--threads", 2, "--seconds", 0.001] if session.small else [])
    found = session.kept("row_transfer.txt")
    session.checks.program(command, 60, out=found)
    with open(found, encoding="utf-8") as text:
        return text.read().splitlines()


def available_bytes():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def beyond_memory(session, share, all_there):
    """Training with a share of the rows in the GPU's memory, against all of them there."""
    with open(session.scratch("c.manifest.json"), encoding="utf-8") as file:
        rows = sum(json.load(file)["slot_size_array"])
    with open(session.scratch("mlperf.json"), encoding="utf-8") as file:
        plan = json.load(file)
    row = 4 * next(e["sparse_embedding_hparam"]["embedding_vec_size"] for e in plan["layers"] if e["name"] == "emb")
    if rows * row > 0.8 * available_bytes():
        raise NotRun(f"{rows * row / 1e9:.0f} GB of rows are too many for this machine's memory")
    # Rows, two words for each of them, a word for each row of the tables, and the work of an admission.
    gigabytes = (share * rows * (row + 8) + 4 * rows + 16 * 26 * plan["solver"]["batchsize"] + 4096) / 1e9
    rate = best_rate(train(session, f"beyond-{share}", BF16, f'solver.embedding_memory={{"gpu_gb":{gigabytes:.6f}}}'))
    with open(session.checks.log, encoding="utf-8") as log:
        moved = [line.split("emb: ")[1].strip() for line in log if "lookups found" in line]
    of_all = f", {rate / all_there:.2f} of all rows in GPU memory" if all_there else ""
    return [f"{rate:,.0f} samples/s at best{of_all}; gpu_gb {gigabytes:.6g}", *moved]


def beyond_memory_runs(session):
    checks, best = session.checks, []

    def all_there():
        best.append(best_rate(train(session, "all-rows", BF16)))
        return [f"{best[0]:,.0f} samples/s at best"]

    checks.check("beyond-memory-all-rows-there", all_there)
    for share in (0.9,) if session.small else (0.05, 0.1, 0.3):
        checks.check(f"beyond-memory-{100 * share:.0f}-percent",
                     lambda part=share: beyond_memory(session, part, best[0] if best else 0))


def uniform_keys(session):
    """What training_file() has written, but the keys of large tables uniform: few of their rows are in memory. Its config
    takes the place of the other one."""
    words, path = 1 + 13 + 26, session.scratch("c.train.bin")
    with open(session.scratch("c.manifest.json"), encoding="utf-8") as file:
        tables = json.load(file)["slot_size_array"]
    data = array.array("I")
    with open(path, "rb") as file:
        data.frombytes(file.read())
    if len(data) % words:
        raise Failed(f"{path}: expected records of {words} words")
    samples, drawn, changed = len(data) // words, random.Random(1), 0
    for slot, rows in enumerate(tables):
        if rows > 100_000 or (session.small and rows == max(tables)):
            whole = array.array("I", drawn.randbytes(4 * samples))
            data[14 + slot::words] = array.array("I", [word % rows for word in whole])
            changed += 1
    with open(session.scratch("uniform.bin"), "wb") as file:
        file.write(data.tobytes())
    with open(session.scratch("mlperf.json"), encoding="utf-8") as file:
        plan = json.load(file)
    for layer in plan["layers"]:
        if layer["name"] == "data":
            layer.update(source="uniform.bin", eval_source="uniform.bin", slot_size_array=tables, num_samples=samples,
                         eval_num_samples=samples)
        elif layer["name"] == "emb":
            layer["sparse_embedding_hparam"]["slot_size_array"] = tables
    with open(session.scratch("mlperf.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    return [f"{changed} tables of {len(tables)}, {samples:,} samples"]


def tiers(session):
    """Rows beyond the GPU's memory with keys that find few of theirs there, and how rows cross the bus."""
    session.checks.check("row-transfer", lambda: row_transfer(session))
    if (session.checks.check("uniform-file", lambda: training_file(session, 2_000_000))
            and session.checks.check("uniform-keys", lambda: uniform_keys(session))):
        session.checks.check("beyond-memory-uniform-keys",
                             lambda: beyond_memory(session, 0.9 if session.small else 0.05, 0))
    else:
        session.checks.skip("beyond-memory-uniform-keys", "there is no file")


def run(session):
    for name in ("train_bench.jsonl", "pytorch.jsonl", "comm_bench.jsonl", "exchange_bench.jsonl", "row_transfer.txt"):
        if os.path.exists(session.kept(name)):
            os.remove(session.kept(name))
    checks = session.checks
    whole_iterations(session)
    # One next to the other: uniform keys cost the same bytes with both, and more translation of addresses with all rows.
    for cap in sorted({min(SOME_ROWS, rows_of_tables(session)), rows_of_tables(session)}):
        for alpha in (1.05, 0):
            checks.check(f"embedding-cap-{cap}-alpha-{alpha}", lambda run=(cap, alpha): embedding(session, *run))
    for ranks in (2,) if session.small else (1, 2, 4):
        if ranks > 1:
            checks.check(f"collectives-{ranks}-ranks", lambda n=ranks: collectives(session, n))
        for alpha in (1.05, 0):
            checks.check(f"exchanges-{ranks}-ranks-alpha-{alpha}", lambda run=(ranks, alpha): exchanges(session, *run))
    written = checks.check("mlperf-file", lambda: training_file(session))
    for precision, setting in (("bf16", BF16), ("tf32", "solver.enable_tf32_compute=true")):
        name = f"mlperf-from-file-{precision}"
        if written:
            checks.check(name, lambda what=(precision, setting): from_file(session, *what))
        else:
            checks.skip(name, "see mlperf-file")
    checks.check("row-transfer", lambda: row_transfer(session))
    if written:
        beyond_memory_runs(session)
    else:
        checks.skip("beyond-memory", "see mlperf-file")
    checks.check("pytorch", lambda: pytorch(session))  # the longest
    table(session)
