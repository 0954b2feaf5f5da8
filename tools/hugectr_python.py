#!/usr/bin/env python3
"""Writes a config of `train` from a Python script that uses HugeCTR's API (3.1 to 25.03).

  tools/hugectr_python.py [--out config.json] [--nodes N] [--without MODULE] script.py [arguments of the script]

Runs the script with a module `hugectr` in place of HugeCTR that only records its calls, up to the first `fit`, and
prints the config on standard output, or writes it to --out. Branches on arguments are taken as the script takes them.
`mpi4py` answers as rank 0 of N nodes. Other modules that are not installed are replaced by ones whose calls do nothing;
a value that comes from one and is needed in the config is an error. Needs only Python.

Exit codes: 0 done, 2 a call that has no translation, with the line of the script and what to do."""
import argparse
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hugectr.model_config import config_of
from hugectr.recorder import Untranslated
from hugectr.run_script import ScriptFailed, record


def text_of(config):
    """JSON with a list of numbers or names on one line."""
    text = json.dumps(config, indent=2)
    joined = re.compile(r"\[\s*((?:[^\[\]{}\"]|\"[^\"]*\")+?)\s*\]")
    return joined.sub(lambda found: "[" + re.sub(r"\s*\n\s*", " ", found.group(1)) + "]", text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0],
                                     epilog="What translates is in docs/from_hugectr.md.")
    parser.add_argument("--out", metavar="FILE", help="write the config here instead of to standard output")
    parser.add_argument("--nodes", metavar="N", type=int, default=1, help="nodes that mpi4py reports to the script (1)")
    parser.add_argument("--without", metavar="MODULE", action="append", default=[],
                        help="replace a module of the script, such as one that looks at files, by one that does nothing")
    parser.add_argument("script", help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    options = parser.parse_args()
    if options.nodes < 1:
        parser.error(f"--nodes: expected an integer >= 1, found {options.nodes}")
    try:
        recording = record(options.script, options.arguments, options.nodes, options.without)
        text = text_of(config_of(recording))
    except (Untranslated, ScriptFailed) as problem:
        print(f"hugectr_python.py: {problem}", file=sys.stderr)
        return 2
    for warning in recording.warnings:
        print(f"hugectr_python.py: warning: {warning}", file=sys.stderr)
    try:
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            sys.stdout.write(text)
    except OSError as problem:
        print(f"hugectr_python.py: --out {options.out}: {problem.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
