"""What happens inside of an iteration: gpu_probe's pieces, a trace of captured iterations, Nsight Compute's counters."""
import csv
import glob
import json
import os
import shutil
import sys

from bench import SMALL_SIZES, SOME_ROWS
from checks import Failed, NotRun
from tables import read_numbers

TRACED = [("mlperf", 65536), ("mlperf", 8192), ("mlperf", 4096), ("dcnv2", 8192)]  # the first one's trace is kept
TRACE_LIBRARY, TRACE_REPORT = "libhlite_trace.so", "tests/bench/trace/trace_report.py"
KEPT_ITERATIONS = 20


def probes(session, names, seconds):
    """gpu_probe ends itself; what it has found until then counts."""
    def run():
        program = session.program("gpu_probe")
        found = session.scratch(f"probe-{'-'.join(names)}.jsonl")
        command = [program, "--only", ",".join(names), "--seconds", seconds, "--json", found]
        try:
            session.checks.program(command + (["--small"] if session.small else []), seconds + 10)
        finally:
            if os.path.exists(found):
                with open(found, "rb") as new, open(session.kept("probe.jsonl"), "ab") as file:
                    shutil.copyfileobj(new, file)
        return [f"{len(read_numbers(found))} lines"]

    session.checks.check(f"probe-{names[0]}" + (f"-to-{names[-1]}" if len(names) > 1 else ""), run)


def traces(session):
    for i, (shape, batch) in enumerate(TRACED[:1] if session.small else TRACED):
        session.checks.check(f"trace-{shape}-{batch}", lambda run=(shape, batch, i == 0): trace(session, *run))


def summary_of_trace(session, shape, batch):
    return os.path.join(session.checks.logs, f"trace-{shape}-{batch}.json")


def trace(session, shape, batch, keep):
    library = session.program(TRACE_LIBRARY)
    report = os.path.join(session.root, TRACE_REPORT)
    if not os.path.exists(report):
        raise NotRun(f"{TRACE_REPORT} is not here")
    raw, less = session.scratch("trace.jsonl"), os.path.join(session.checks.logs, f"trace-{shape}-{batch}.jsonl.gz")
    how = SMALL_SIZES if session.small else {"shape": shape, "seconds": 0.1, "step-seconds": 0.0001, "gemm-edge": 1024,
                                             "copy-bytes": 1 << 20}
    command = [session.program("train_bench"), "--device", "cuda", "--precision", "bf16", "--no-eager", "--quiet",
               "--batch", 32 if session.small else batch, "--cap", 100 if session.small else SOME_ROWS]
    command += [word for key, value in how.items() for word in ("--" + key, value)]
    if shape == "dcnv2":
        command += ["--optimizer", "AdaGrad"]
    session.checks.program(command, 30, env=dict(session.checks.env, CUDA_INJECTION64_PATH=library, HLITE_TRACE=raw))
    if not os.path.exists(raw):
        raise Failed("the program has left no trace")
    said = session.scratch("trace.txt")
    session.checks.program([sys.executable, "-B", report, raw, "--json", summary_of_trace(session, shape, batch), "--keep",
                            KEPT_ITERATIONS, "--out", less], 30, out=said)
    if keep:
        shutil.copy(less, session.kept("trace.jsonl.gz"))
    os.remove(raw)
    with open(said, encoding="utf-8") as text:
        lines = text.read().splitlines()
    os.remove(said)
    return lines


# ---- Nsight Compute ----

SECTIONS = ["SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy", "SchedulerStats"]
# Names of kernels are without namespaces and arguments of templates.
KERNELS = ["copy_rows_kernel", "pool_rows_kernel", "update_segments_kernel", "update_by_warps_kernel", "update_carried_kernel",
           "forward_kernel", "backward_kernel", "vector_forward_kernel", "vector_backward_kernel", "column_sums_kernel",
           "loss_head_kernel"]
COUNTED = [("bf16", {"precision": "bf16", "shape": "mlperf"}), ("tf32", {"precision": "tf32", "shape": "mlperf"}),
           ("dcnv2", {"precision": "bf16", "shape": "dcnv2", "optimizer": "AdaGrad", "batch": 8192})]
LAUNCHES = 14  # more than the wanted kernels of one iteration


def find_ncu():
    places = [shutil.which("ncu"), *sorted(glob.glob("/usr/local/cuda*/bin/ncu"), reverse=True),
              *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    return next(filter(None, places), None)


def ncu(session):
    """Counters of a launch or two of each kernel, each time in a process and within a limit of its own."""
    runs = COUNTED[:1] if session.small else [*COUNTED, ("exchange", None)]
    for name, options in runs:
        session.checks.check(f"ncu-{name}", lambda run=(name, options): counters(session, *run))


def counters(session, name, options):
    tool = find_ncu()
    if not tool:
        raise NotRun("ncu is not here")
    kernels, found = KERNELS, session.scratch(f"ncu-{name}.csv")
    if options is None:
        kernels = ["gather_requested_kernel", "scatter_scaled_kernel", "convert_requested_kernel"]
        program = [session.program("exchange_bench"), "--device", "cuda", "--ranks", "2", "--alpha", "1.05", "--seconds", 0.001,
                   *(["--shape", "tiny", "--cap", 100, "--batch", 32] if session.small else
                     ["--shape", "mlperf", "--precision", "bf16", "--cap", 1_000_000])]
    else:
        # Counters are collected in several passes, before each of which all memory that a kernel writes comes back.
        how = {"cap": 1_000_000, "batch": 65536, "seconds": 0.001, "step-seconds": 0.0001, "batches": 2, "gemm-edge": 1024,
               "copy-bytes": 1 << 20, **options}
        if session.small:
            how.update(SMALL_SIZES, cap=100, batch=32)
        program = [session.program("train_bench"), "--device", "cuda", "--no-eager", "--quiet"]
        program += [word for key, value in how.items() for word in ("--" + key, value)]
    command = [tool, "--clock-control", "none", "--target-processes", "all", "--csv", "--page", "raw", "--print-units", "base",
               "--log-file", found, "--kernel-name", f"regex:({'|'.join(kernels)})", "--launch-count", LAUNCHES, "--kill", "yes"]
    command += [word for section in SECTIONS for word in ("--section", section)]
    ended = ""
    try:
        session.checks.program(command + program, 45)
    except (Failed, NotRun) as why:  # ncu ends the program after the last launch that it counts
        ended = str(why)
    rows = read_counters(found)
    if not rows:
        raise Failed(f"ncu has counted nothing{': ' + ended if ended else ''}")
    kept = session.kept("ncu.csv")
    with open(found, encoding="utf-8", errors="replace") as new, open(kept, "a", encoding="utf-8") as file:
        file.write(f"# {name}\n")
        file.writelines(line for line in new if line.startswith('"'))
    return [f"{len(rows)} launches of {len({row['Kernel Name'] for row in rows})} kernels"]


def read_counters(path):
    """Rows of one table of ncu's, or of several with a line # NAME before each; the second line of each has units."""
    if not os.path.exists(path):
        return []
    rows, lines, of = [], [], ""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = [*file, "# end\n"]

    def take():
        rows.extend(dict(row, of=of) for row in list(csv.DictReader(lines))[1:])
        lines.clear()

    for line in text:
        if line.startswith("# "):
            take()
            of = line[2:].strip()
        elif line.startswith('"'):
            lines.append(line)
    return rows


def number(row, *parts):
    """Of the first column whose name holds all parts; None where there is none."""
    for name, value in row.items():
        if all(part in name for part in parts):
            try:
                return float(value.replace(",", ""))
            except (ValueError, AttributeError):
                return None
    return None


def stall_of(row):
    """Why most warps wait: the name in smsp__average_warps_issue_stalled_NAME_per_issue_active, and cycles an instruction."""
    begin, stalls = "smsp__average_warps_issue_stalled_", {}
    for name in row:
        if name.startswith(begin) and "not_issued" not in name and "selected" not in name:
            stalls[name[len(begin):].split("_per_")[0]] = number(row, name) or 0
    worst = max(stalls, key=stalls.get, default=None)
    return f"{worst} {stalls[worst]:.1f}" if worst else "-"


def kernel_table(session):
    """What a kernel takes alone and in place, and what bounds it."""
    rows = read_counters(session.kept("ncu.csv"))
    in_place = {}
    for shape, batch in TRACED:
        try:
            with open(summary_of_trace(session, shape, batch), encoding="utf-8") as file:
                in_place[(shape, batch)] = {k["name"]: k for k in json.load(file)["kernels"]}
        except (OSError, ValueError, KeyError):
            continue
    if not rows and not in_place:
        raise NotRun("there are neither counters nor traces")
    lines = []
    if rows:
        def percent(row, *parts):
            value = number(row, *parts)
            return "-" if value is None else f"{value:.0f}"

        lines += ["| kernel | of | us alone | memory % | L2 % | HBM % | warps % | waits for |", "|---|---|---|---|---|---|---|---|"]
        for row in rows:
            ns = number(row, "gpu__time_duration.sum")
            lines.append(
                f"| {row['Kernel Name'].split('(')[0][:60]} | {row['of']} | {'-' if ns is None else f'{ns / 1000:.1f}'} "
                f"| {percent(row, 'gpu__compute_memory_throughput', 'pct')} | {percent(row, 'lts__t', 'pct')} "
                f"| {percent(row, 'dram__throughput', 'pct')} | {percent(row, 'sm__warps_active', 'pct')} | {stall_of(row)} |")
    for (shape, batch), kernels in in_place.items():
        lines += ["", f"In place, {shape}, batch {batch:,}:", "", "| kernel | times | us | us with nothing beside it |",
                  "|---|---|---|---|"]
        lines += [f"| {name} | {k['times']} | {k['us']:.1f} | {k['alone']:.1f} |" for name, k in kernels.items()]
    for line in ["", *lines, ""]:
        session.checks.line(line)
    return []


def table(session):
    session.checks.check("kernels", lambda: kernel_table(session), late=True)
