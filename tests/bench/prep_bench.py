#!/usr/bin/python3
"""criteo_prep compared with a pandas categorify, in turn, on the same generated rows.

    tests/bench/prep_bench.py --bin build/release/bin --rows 10000000 --folder /large/disk

Prints for each run wall time, CPU time, rows/s and peak memory, and at the end the ratio of the best ones. The
pandas script is what people write: read_csv, then factorize, column by column, then one array of int32 saved.
It holds everything in memory: --pandas-rows bounds it (its rate falls a little with size). With --gzip criteo_prep
also reads the file compressed. Needs python3-pandas (Debian's; hence the interpreter above).
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

PANDAS = """
import sys
import numpy
import pandas
source, rows, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
names = ["label"] + [f"I{k}" for k in range(1, 14)] + [f"C{k}" for k in range(1, 27)]
types = {f"C{k}": "str" for k in range(1, 27)}
frame = pandas.read_csv(source, sep="\\t", header=None, names=names, dtype=types, nrows=rows)
columns = [frame["label"].to_numpy("int32")]
for k in range(1, 14):
    columns.append(frame[f"I{k}"].fillna(0).clip(lower=0).to_numpy("int32"))
for k in range(1, 27):
    columns.append(pandas.factorize(frame[f"C{k}"].fillna("0"))[0].astype("int32"))
numpy.stack(columns, axis=1).tofile(out)
"""


def run(name, rows, command):
    """Runs a command; prints and returns (wall seconds, CPU seconds)."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    if status != 0:
        sys.exit(f"{name} failed: {' '.join(command)}")
    cpu = usage.ru_utime + usage.ru_stime
    print(f"{name:<18} {rows:>10} rows  {wall:8.2f} s  {rows / wall:10.0f} rows/s  "
          f"{cpu:8.2f} CPU s  {cpu / rows * 1e6:6.2f} us CPU/row  {usage.ru_maxrss / 1024:8.0f} MiB", flush=True)
    return wall / rows, cpu / rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--pandas-rows", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--folder", default="prep_bench", help="scratch folder, removed at the end")
    parser.add_argument("--gzip", action="store_true")
    args = parser.parse_args()

    os.makedirs(args.folder, exist_ok=True)
    text = os.path.join(args.folder, "rows")
    subprocess.run([os.path.join(args.bin, "criteo_synth"), "--train", str(args.rows), "--test", "0",
                    "--like", "criteo", "--out", text, "--force"], check=True, stdout=subprocess.DEVNULL)
    text += ".train.tsv"
    print(f"{args.rows} rows, {os.path.getsize(text) / 1e9:.2f} GB of text, {args.threads} threads")

    def prep(name, source):
        out = os.path.join(args.folder, "out")
        result = run(name, args.rows, [os.path.join(args.bin, "criteo_prep"), "--train", source, "--out", out,
                                       "--memory", args.memory, "--threads", args.threads, "--quiet"])
        shutil.rmtree(out)
        return result

    def pandas():
        rows = min(args.rows, args.pandas_rows)
        return run("pandas", rows, ["/usr/bin/python3", "-c", PANDAS, text, str(rows),
                                    os.path.join(args.folder, "pandas.bin")])

    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(prep("criteo_prep", text))
        theirs.append(pandas())
    print(f"ratio of the best wall times a row {min(theirs)[0] / min(ours)[0]:.1f}, of CPU times "
          f"{min(t[1] for t in theirs) / min(t[1] for t in ours):.1f}")
    if args.gzip:
        subprocess.run(["gzip", "-1", "-k", text], check=True)
        prep("criteo_prep .gz", text + ".gz")
    shutil.rmtree(args.folder)


if __name__ == "__main__":
    main()
