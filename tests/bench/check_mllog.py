#!/usr/bin/env python3
"""Timed runs of the scaled-down DLRM, DLRM-DCNv2 and DLRM-HSTU through docker/run_trials.sh, to their targets; their logs go
to MLPerf's own compliance checker.

    tests/bench/check_mllog.py --bin build/release/bin --venv /tmp/mlperf --install

--install puts the checker (mlperf-logging and PyYAML, from PyPI), and polars and NumPy for dlrmv4's data, into a virtual
environment at --venv first. Each benchmark's logs are checked by the rules of every round that it belongs to, in the open
division: the data is synthetic. The rules of dlrmv4 name the numbers of samples and a range of rates in that division too, so
its log says these instead of its own. --data FOLDER keeps the data (1.3 GB) there for another run. --trials N runs each N times.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKER = "mlperf-logging==4.1.68"  # the number is no rule version: it holds all of them
SYSTEMS = {  # docker/config_NAME.sh -> folder of its data, config, rules, what the log says instead
    "demo_1x1x1024": (".", "demo.json", ("1.0.0", "1.1.0", "2.0.0", "2.1.0"), {}),
    "demo_dcnv2_1x1x1024": ("dcnv2", "demo_dcnv2.json", ("3.0.0", "4.0.0", "4.1.0", "5.0.0", "5.1.0"), {}),
    "demo_dlrmv4_1x1x256": ("dlrmv4", "demo_dlrmv4.json", ("6.1.0",),
                            {"train_samples": 2290835423, "eval_samples": 2058204, "opt_base_learning_rate": 1e-6 / 32,
                             "opt_sparse_base_learning_rate": 1e-6 / 32}),
}


def make_data(binary, folder, venv):
    """The demo's data, the same rows with lists of keys, and histories; what is there already stays."""
    synth = os.path.join(folder, "synth")
    if not os.path.exists(synth + ".train.tsv"):
        subprocess.run([f"{binary}/criteo_synth", "--train", "1000000", "--test", "100000", "--out", synth], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lists = subprocess.run(["bash", "-c", f"source {ROOT}/docker/config_demo_dcnv2_1x1x1024.sh; echo $MULTI_HOT"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    for sub, more in ((".", []), ("dcnv2", ["--multi-hot", lists])):
        out = os.path.join(folder, sub)
        if not os.path.exists(os.path.join(out, "manifest.json")):
            subprocess.run([f"{binary}/criteo_prep", "--train", synth + ".train.tsv", "--val", synth + ".test.tsv",
                            "--out", out, *more], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not os.path.exists(os.path.join(folder, "dlrmv4", "yambda.json")):
        with open(os.path.join(ROOT, "docs/histories.md"), encoding="utf-8") as page:
            script = re.search(r"^(python3 docs/gallery/yambda.py generate.*?--out demo/dlrmv4)$", page.read(), re.M | re.S)[1]
        script = script.replace("python3 docs", f"{venv}/bin/python {ROOT}/docs").replace("demo/", folder + "/")
        subprocess.run(["bash", "-ec", script], check=True, stdout=subprocess.DEVNULL)


def timed_runs(binary, system, data, config, trials, logs):
    """Runs a system's trials on this machine; returns their logs. Exits where one fails."""
    environment = dict(os.environ, ENGINE="none", CLEAR_CACHES="0", NEXP=str(trials), DATADIR=data, LOGDIR=logs,
                       CONFIG=os.path.join(ROOT, "configs", config), TRAIN=os.path.join(binary, "train"))
    run = subprocess.run(["bash", "-c", f"source {ROOT}/docker/config_{system}.sh; exec {ROOT}/docker/run_trials.sh"],
                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        sys.exit(f"{system}: exit code {run.returncode}\n{run.stdout}")
    return [os.path.join(logs, f"result_{trial}.txt") for trial in range(trials)]


def reported(log):
    """How a run ended: its status, and its AUCs by epoch or, of dlrmv4, by samples."""
    status, aucs = "", []
    for line in open(log, encoding="utf-8"):
        event = json.loads(line.split(":::MLLOG ", 1)[1])
        if event["key"] == "eval_accuracy":
            aucs.append((event["metadata"].get("epoch_num", event["metadata"].get("samples_count")), event["value"]))
        if event["key"] == "run_stop":
            status = event["metadata"]["status"]
    return status, aucs


def with_values(log, values):
    """A copy of the log with other values of these keys."""
    lines = []
    for line in open(log, encoding="utf-8"):
        event = json.loads(line.split(":::MLLOG ", 1)[1])
        event["value"] = values.get(event["key"], event["value"])
        lines.append(":::MLLOG " + json.dumps(event) + "\n")
    with open(log + ".checked", "w", encoding="utf-8") as file:
        file.writelines(lines)
    return file.name


def check(venv, rule, log):
    checked = subprocess.run(
        [f"{venv}/bin/python", "-W", "ignore", "-m", "mlperf_logging.compliance_checker", "--usage", "training",
         "--ruleset", rule, "--log_output", os.devnull, log], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return checked.returncode == 0, checked.stdout


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    ap.add_argument("--venv", required=True, help="virtual environment that has the checker")
    ap.add_argument("--install", action="store_true", help="make it first")
    ap.add_argument("--data", help="folder for the data (default: a temporary one)")
    ap.add_argument("--trials", type=int, default=1)
    a = ap.parse_args()
    a.bin = os.path.abspath(a.bin)
    if a.install:
        subprocess.run([sys.executable, "-m", "venv", a.venv], check=True)
        subprocess.run([f"{a.venv}/bin/pip", "install", "-q", "--no-deps", CHECKER, "pyyaml"], check=True)
        subprocess.run([f"{a.venv}/bin/pip", "install", "-q", "polars", "numpy"], check=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.abspath(a.data or folder)
        os.makedirs(data, exist_ok=True)
        make_data(a.bin, data, os.path.abspath(a.venv))
        for system, (sub, config, rules, instead) in SYSTEMS.items():
            logs = os.path.join(folder, system)
            for log in timed_runs(a.bin, system, os.path.join(data, sub), config, a.trials, logs):
                status, aucs = reported(log)
                print(f"{system}: {status}, AUC {aucs[-1][1]:.5f} at {aucs[-1][0]:.6g}", flush=True)
                failed += status != "success"
                for rule in rules:
                    passed, text = check(a.venv, rule, with_values(log, instead))
                    print(f"  rules {rule}: {'passed' if passed else 'FAILED'}", flush=True)
                    if not passed:
                        print(text)
                        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
