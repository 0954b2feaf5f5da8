#!/usr/bin/env python3
"""Times programs in turn from exec to the end of their process: each `--program` gets the same arguments, those after
`--`, with {out} for a file that it writes. Prints milliseconds of wall and CPU time, and the median ratio to the first.

  predict_start.py --program old/predict --program build/release/bin/predict -- --model w.safetensors \\
    --config configs/adult.json --input val.bin --threads 2 --out {out} --quiet
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    times = [([], []) for _ in options.program]
    written = set()
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "scores.npy")
        arguments = [argument.replace("{out}", out) for argument in options.arguments]
        for _ in range(options.rounds):
            for program, (wall, cpu) in zip(options.program, times):
                cpu_begin, begin = cpu_seconds(), time.perf_counter()
                subprocess.run([program, *arguments], check=True, capture_output=True)
                wall.append(1e3 * (time.perf_counter() - begin))
                cpu.append(1e3 * (cpu_seconds() - cpu_begin))
                if os.path.exists(out):
                    with open(out, "rb") as file:
                        written.add(file.read())
    for program, (wall, cpu) in zip(options.program, times):
        ratio = [statistics.median(a / b for a, b in zip(first, own)) for first, own in zip(times[0], (wall, cpu))]
        print(json.dumps({"program": program,
                          "wall_ms": [round(statistics.median(wall), 1), round(min(wall), 1)],
                          "cpu_ms": [round(statistics.median(cpu), 1), round(min(cpu), 1)],
                          "ratio": {"wall": round(ratio[0], 2), "cpu": round(ratio[1], 2)}}))
    print("the same bytes were written" if len(written) < 2 else "different bytes were written")


if __name__ == "__main__":
    main()
