#!/usr/bin/env python3
"""criteo_prep on Parquet compared with pyarrow + pandas, in turn, on the same generated rows.

    tests/bench/parquet_bench.py --bin build/release/bin --rows 4000000 --folder /large/disk --venv DIR

Tokens are texts, as in Criteo's files: in dictionaries of a row group, as pyarrow writes them, or, with --numbers, 32-bit
integers. Two spellings of the peer: "factorize" reads the table into pandas and factorizes column by column;
"dictionary" lets Arrow read texts as dictionaries, merge them, and takes its codes. Both hold everything in memory and
save one array of int32, as criteo_prep does record by record. Prints for each run wall time, CPU time, rows/s and peak
memory, and at the end the ratio of the best ones. --venv: a folder for a virtual environment with pyarrow and pandas
from PyPI, made where there is none.
"""
import argparse
import os
import shutil
import subprocess
import sys
import venv

from prep_bench import run

PACKAGES = ["pyarrow==26.0.1", "pandas"]

WRITE = """
import sys
import pyarrow, pyarrow.compute, pyarrow.csv, pyarrow.parquet
source, out, numbers, rows = sys.argv[1], sys.argv[2], sys.argv[3] == "1", int(sys.argv[4])
names = ["label"] + [f"I{k}" for k in range(1, 14)] + [f"C{k}" for k in range(1, 27)]
types = {n: pyarrow.string() if n[0] == "C" else pyarrow.int32() for n in names}
table = pyarrow.csv.read_csv(source, pyarrow.csv.ReadOptions(column_names=names),
                             pyarrow.csv.ParseOptions(delimiter="\\t"),
                             pyarrow.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True))
if numbers:
    for n in names[14:]:
        values = pyarrow.array([None if t is None else int(t, 16) for t in table[n].to_pylist()], pyarrow.uint32())
        table = table.set_column(table.column_names.index(n), n, values)
pyarrow.parquet.write_table(table, out, row_group_size=rows)
"""

FACTORIZE = """
import sys
import numpy, pandas, pyarrow.parquet
frame = pyarrow.parquet.read_table(sys.argv[1]).to_pandas()
columns = [frame["label"].to_numpy("int32")]
for k in range(1, 14):
    columns.append(frame[f"I{k}"].fillna(0).clip(lower=0).to_numpy("int32"))
for k in range(1, 27):
    columns.append(pandas.factorize(frame[f"C{k}"], use_na_sentinel=True)[0].astype("int32") + 1)
numpy.stack(columns, axis=1).tofile(sys.argv[2])
"""

DICTIONARY = """
import sys
import numpy, pyarrow, pyarrow.compute, pyarrow.parquet
cats = [f"C{k}" for k in range(1, 27)]
table = pyarrow.parquet.read_table(sys.argv[1], read_dictionary=cats)
columns = [table["label"].to_numpy().astype("int32")]
for k in range(1, 14):
    values = pyarrow.compute.max_element_wise(table[f"I{k}"].fill_null(0), 0)
    columns.append(values.to_numpy().astype("int32"))
for name in cats:
    column = table[name]
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.unify_dictionaries().combine_chunks().indices.fill_null(-1)
    columns.append(codes.to_numpy().astype("int32") + 1)
numpy.stack(columns, axis=1).tofile(sys.argv[2])
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--group-rows", type=int, default=262144, help="rows of a row group")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--folder", default="parquet_bench", help="scratch folder, removed at the end")
    parser.add_argument("--venv", default="parquet_bench_venv")
    args = parser.parse_args()

    python = os.path.join(args.venv, "bin", "python")
    if not os.path.exists(python):
        venv.create(args.venv, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    os.makedirs(args.folder, exist_ok=True)
    text = os.path.join(args.folder, "rows")
    subprocess.run([os.path.join(args.bin, "criteo_synth"), "--train", str(args.rows), "--test", "0",
                    "--like", "criteo", "--out", text, "--force"], check=True, stdout=subprocess.DEVNULL)
    text += ".train.tsv"
    source = os.path.join(args.folder, "rows.parquet")
    subprocess.run([python, "-c", WRITE, text, source, "1" if args.numbers else "0", str(args.group_rows)], check=True)
    os.sync()  # or the first run competes with the writing of its input
    print(f"{args.rows} rows, {os.path.getsize(source) / 1e6:.0f} MB of Parquet in row groups of {args.group_rows}, "
          f"{os.path.getsize(text) / 1e6:.0f} MB as text, {args.threads} threads")

    def prep(name, path):
        out = os.path.join(args.folder, "out")
        result = run(name, args.rows, [os.path.join(args.bin, "criteo_prep"), "--train", path, "--out", out,
                                       "--memory", args.memory, "--threads", args.threads, "--quiet"])
        shutil.rmtree(out)
        return result

    def peer(name, script):
        return run(name, args.rows, [python, "-c", script, source, os.path.join(args.folder, "peer.bin")])

    ours, peers = [], {"factorize": [], "dictionary": []}
    for _ in range(args.rounds):
        ours.append(prep("criteo_prep", source))
        peers["factorize"].append(peer("pandas factorize", FACTORIZE))
        peers["dictionary"].append(peer("Arrow dictionary", DICTIONARY))
        prep("criteo_prep, TSV", text)
    for name, times in peers.items():
        print(f"{name}: ratio of the best wall times {min(times)[0] / min(ours)[0]:.2f}, of CPU times "
              f"{min(t[1] for t in times) / min(t[1] for t in ours):.2f}")
    shutil.rmtree(args.folder)


if __name__ == "__main__":
    sys.exit(main())
