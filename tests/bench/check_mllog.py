#!/usr/bin/env python3
"""Trains the demo's model with --mllog and hands the logs to MLPerf's own compliance checker.

    tests/bench/check_mllog.py --bin build/release/bin --venv /tmp/mlperf --install

--install puts the checker (mlperf-logging and PyYAML, from PyPI) into a virtual environment at --venv first. Each
benchmark's log is checked by the rules of every round that it belongs to, in the open division: the data is synthetic.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKER = "mlperf-logging==4.1.68"  # the number is no rule version: it holds all of them
RULES = {"dlrm": ("1.0.0", "1.1.0", "2.0.0", "2.1.0"), "dlrm_dcnv2": ("3.0.0", "4.0.0", "4.1.0", "5.0.0", "5.1.0")}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    ap.add_argument("--venv", required=True, help="virtual environment that has the checker")
    ap.add_argument("--install", action="store_true", help="make it first")
    a = ap.parse_args()
    if a.install:
        subprocess.run([sys.executable, "-m", "venv", a.venv], check=True)
        subprocess.run([f"{a.venv}/bin/pip", "install", "-q", "--no-deps", CHECKER, "pyyaml"], check=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        tsv = os.path.join(folder, "synth")
        for command in (["criteo_synth", "--train", "100000", "--test", "20000", "--out", tsv],
                        ["criteo_prep", "--train", tsv + ".train.tsv", "--val", tsv + ".test.tsv", "--out", folder]):
            subprocess.run([f"{a.bin}/{command[0]}", *command[1:]], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            sizes = json.load(file)["slot_size_array"]
        for benchmark, rules in RULES.items():
            log = os.path.join(folder, benchmark + ".txt")
            subprocess.run([f"{a.bin}/train", "--config", os.path.join(ROOT, "configs/demo.json"), "--quiet", "--mllog",
                            log, "--set", f"solver.benchmark={benchmark}",
                            "--set", f"layers.data.source={folder}/train.bin",
                            "--set", f"layers.data.eval_source={folder}/val.bin",
                            "--set", f"layers[1].sparse_embedding_hparam.slot_size_array={sizes}",
                            "--set", "solver.max_iter=90", "--set", "solver.eval_interval=30",
                            "--set", 'solver.eval_metrics=["AUC:0.75"]'], check=True)
            for rule in rules:
                checked = subprocess.run(
                    [f"{a.venv}/bin/python", "-W", "ignore", "-m", "mlperf_logging.compliance_checker", "--usage",
                     "training", "--ruleset", rule, "--log_output", os.devnull, log],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                print(f"{benchmark}, rules {rule}: {'passed' if checked.returncode == 0 else 'FAILED'}", flush=True)
                if checked.returncode:
                    print(checked.stdout)
                    failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
