"""The golden runs on the GPU: losses and AUC against those of the original, with graphs and without, in 16 bits,
by several ranks that share the GPU, and by a rank a GPU where there are several."""
import csv
import filecmp
import gzip
import json
import os
import shutil

from checks import Failed

LIMIT = 60            # seconds for a run
FIRST = 50            # losses that rounding cannot have moved far
SMALL_ITERATIONS = 3
# The largest relative error of the first losses and of all, and the largest error of the AUC.
FLOAT = (1e-5, 5e-3, 1e-3)
HALF = (0.05, 0.05, 0.004)
# Ranks that may share the first GPU, or have one each: what divides the run's batch.
RANKS = {"dlrm_plain": (2,), "dlrm_fused": (2, 4)}
BETWEEN = "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink"


def unpack(session):
    """A copy whose .gz files are unpacked."""
    target = session.scratch("golden")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(os.path.join(session.root, "tests/data/golden"), target)
    for folder, _, names in os.walk(target):
        for name in names:
            if name.endswith(".gz"):
                path = os.path.join(folder, name)
                with gzip.open(path) as packed, open(path[:-3], "wb") as file:
                    shutil.copyfileobj(packed, file)


def read_csv(path, column):
    with open(path, encoding="utf-8", newline="") as file:
        return {int(row[0]): float(row[column]) for row in list(csv.reader(file))[1:]}


def compare(metrics, folder, bounds, iterations=None):
    """Lines for the report; raises Failed where a value of the first `iterations` (default: all) is out of bounds."""
    with open(metrics, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]

    def errors(event, value, expected, relative):
        got = {e["iter"]: e[value] for e in events if e["event"] == event}
        want = {i: v for i, v in expected.items() if iterations is None or i <= iterations}
        missing = [i for i in want if i not in got or not isinstance(got[i], (int, float))]
        if missing:
            raise Failed(f"no {value} of iteration {missing[0]}")
        return {i: abs(got[i] - v) / (abs(v) if relative else 1) for i, v in want.items()}

    losses = errors("train", "batch_loss", read_csv(os.path.join(folder, "expected_losses.csv"), 2), True)
    areas = errors("eval", "auc", read_csv(os.path.join(folder, "expected_eval.csv"), 1), False)
    if not losses:
        raise Failed("no losses to compare with")
    text, good = [], True
    for what, values, bound in ((f"first {FIRST} losses", [v for i, v in losses.items() if i <= FIRST], bounds[0]),
                                ("all losses", list(losses.values()), bounds[1]),
                                ("AUC", list(areas.values()), bounds[2])):
        if values:
            good = good and all(v <= bound for v in values)  # false for NaN
            text.append(f"{what} within {max(values):.2g}")
    if not good:
        raise Failed(f"{', '.join(text)}; expected at most {bounds[0]:g}, {bounds[1]:g} and {bounds[2]:g}")
    return [", ".join(text)]


def train_golden(session, name, label, bounds, *settings, env=None):
    """A golden run, compared with the original's."""
    folder = session.scratch(os.path.join("golden", name))
    iterations = SMALL_ITERATIONS if session.small else None
    metrics = session.scratch(f"{name}-{label}.jsonl")
    command = [session.program("train"), "--config", os.path.join(folder, "config.json"),
               "--init", os.path.join(folder, "init.safetensors"), "--device", "cuda", "--quiet",
               "--metrics", metrics, "--export", session.scratch(f"{name}-{label}.safetensors")]
    if iterations:
        settings += (f"solver.max_iter={iterations}",)
    for setting in ("solver.display=1",) + settings:
        command += ["--set", setting]
    session.checks.program(command, LIMIT, env=env)
    return compare(metrics, folder, bounds, iterations)


def gate(session):
    """The shortest run that meets the products, the exchange between tensor cores and the sparse update."""
    if session.checks.check("golden-data", lambda: unpack(session)):
        session.checks.check("golden-dlrm_fused-bf16",
                             lambda: train_golden(session, "dlrm_fused", "bf16", HALF, "solver.precision=bf16"))


def run(session):
    checks = session.checks

    if not checks.check("golden-data", lambda: unpack(session)):
        return
    for name in ("dlrm_plain", "dlrm_fused"):
        def train(label, bounds, *settings, name=name):
            return train_golden(session, name, label, bounds, *settings)

        both = checks.check(f"golden-{name}", lambda: train("graph", FLOAT))
        both &= checks.check(f"golden-{name}-without-graph", lambda: train("plain", FLOAT, "solver.cuda_graph=false"))
        label = f"golden-{name}-same-bits-with-and-without-graph"
        if both:
            checks.check(label, lambda: same_bits(*(session.scratch(f"{name}-{how}.safetensors")
                                                    for how in ("graph", "plain"))))
        else:
            checks.skip(label, "there are not two runs to compare")
        for ranks in RANKS[name]:
            runs = {"ranks-on-one-gpu": [[0]] * ranks}
            if session.gpus >= ranks:
                runs["gpus"] = [[gpu] for gpu in range(ranks)]
            labels = {f"{ranks}-{how}": rows for how, rows in runs.items()}
            passed = [checks.check(f"golden-{name}-{label}", lambda label=label, rows=rows: train(
                label, FLOAT, f"solver.gpu={rows}", BETWEEN)) for label, rows in labels.items()]
            if len(passed) == 2 and all(passed):
                both = [session.scratch(f"{name}-{label}.safetensors") for label in labels]
                checks.check(f"golden-{name}-{ranks}-same-bits-on-one-gpu-and-on-{ranks}",
                             lambda both=both: same_bits(*both))
        for precision in ("bf16", "fp16"):
            checks.check(f"golden-{name}-{precision}",
                         lambda precision=precision: train(precision, HALF, f"solver.precision={precision}"))


def same_bits(first, second):
    if not filecmp.cmp(first, second, shallow=False):
        raise Failed("the weights differ")
