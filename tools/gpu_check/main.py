"""Arguments of tools/gpu_check.sh and the order of things."""
import argparse
import datetime
import os
import shutil
import signal
import sys
import tempfile
import time

import archive
import bench
import build
import golden
import machine
import sanitizer
import unit_tests
import visits
from checks import Checks, Failed
from processes import ENDING, SLOW, signal_name
from session import Session

# What says most comes first: the minutes may end before the last.
PARTS = {"golden": golden.run, "tests": unit_tests.run, "bench": bench.run, "sanitizer": sanitizer.run}
PASSED, FAILED, USAGE, NO_GPU = 0, 1, 2, 4
DESCRIPTION = """Proves the CUDA backend on a GPU: the golden runs, its tests, benchmarks, compute-sanitizer on its
kernels; and writes what it saw. Each check passed, FAILED or was not run, and the report says why.

  tools/gpu_check.sh                   builds in build/gpu, checks here
  tools/gpu_check.sh --pack FILE       builds (no GPU needed) and puts all that a check needs into one archive
  tools/gpu_check.sh --packed FILE     checks with what --pack made: needs the driver, cuBLASLt and python3
  tools/gpu_check.sh                   the same, inside the folder where the archive was unpacked
  tools/gpu_check.sh --bin DIR         checks with programs that are there (build/release/bin)
  tools/gpu_check.sh --visit A         in place of all that: what a visit to one card of Hopper is for, part by part,
                                       each within its own time, beside what was predicted. A: where an iteration's
                                       time goes; B: exchanges, hash tables, tiers, serving, captured ranks; C: this
                                       build against another (--other DIR)

Exit codes: 0 all that ran passed, 1 something FAILED, 2 wrong usage or nothing to check with, 4 no GPU."""


def arguments(words):
    parser = argparse.ArgumentParser(prog="gpu_check.sh", allow_abbrev=False, description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--pack", metavar="FILE", help="make an archive, .tar.xz (the smaller) or .tar.gz")
    mode.add_argument("--packed", metavar="FILE", help="check with an archive, or with the folder it was unpacked in")
    mode.add_argument("--bin", metavar="DIR", help="check with the programs there; nothing is built")
    parser.add_argument("--architectures", metavar="LIST", help="what to build for, as in CMAKE_CUDA_ARCHITECTURES: "
                        "90, say, for Hopper alone (default: all that a release is built for)")
    parser.add_argument("--unpack", metavar="DIR", help="where to unpack it (default: a temporary folder)")
    parser.add_argument("--only", metavar="PARTS", default=",".join(PARTS),
                        help=f"some of {','.join(PARTS)} (default: all)")
    parser.add_argument("--visit", choices=sorted(visits.VISITS), help="one of the visits, instead of --only")
    parser.add_argument("--other", metavar="DIR", help="programs of another build, for --visit C")
    parser.add_argument("--files", metavar="NAMES", default="",
                        help="only these files of the tests, also under compute-sanitizer: matmul_test,...")
    parser.add_argument("--minutes", metavar="N", type=float, default=9,
                        help="begin nothing after that many, the build included, and end what runs (default: 9)")
    parser.add_argument("--slow", metavar="N", type=float, default=1,
                        help="let each check take N times as long, on a busy machine (default: 1)")
    parser.add_argument("--out", metavar="DIR", help="folder of report.md, numbers (*.jsonl, *.txt) and logs.tar.gz "
                        "(default: $OUT, else build/gpu_check)")
    parser.add_argument("--results", metavar="FILE", help="add the report to this file too")
    parser.add_argument("--data", metavar="DIR", help="folder for generated data (default: a temporary one, in "
                        "memory if it is large enough, so that no disk is measured)")
    parser.add_argument("--rows", metavar="N", type=int, default=8_000_000, help="samples of it (default: 8,000,000)")
    parser.add_argument("--plugin", metavar="FILE", help="CUDA plug-in in place of the one in the programs' folder")
    parser.add_argument("--small", action="store_true", help="sizes for an emulated GPU, to try this script out")
    parser.add_argument("--started", metavar="T", type=float, default=time.time(),
                        help="when the minutes began, in seconds since 1970; --packed hands it to the archive's script")
    parser.add_argument("--temporary", metavar="DIR", help="a folder to remove in the end; likewise")
    a = parser.parse_args(words)
    a.parts = [part for part in a.only.split(",") if part]
    a.files = [name for name in a.files.split(",") if name]
    unknown = [part for part in a.parts if part not in PARTS]
    if unknown or not a.parts:
        parser.error(f"--only: expected some of {','.join(PARTS)}, found '{a.only}'")
    if a.minutes <= 0 or a.rows <= 0 or a.slow <= 0:
        parser.error("--minutes, --rows and --slow: expected numbers above 0")
    SLOW[0] = a.slow
    return a


def interrupted(number, _frame):
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)  # what is left to do is short
    raise SystemExit(128 + number)


def absolute(path):
    return path and os.path.abspath(path)


def go_into_archive(a, words):
    """Goes on with the script that the archive holds, in this process; the programs and it fit each other."""
    folder = absolute(a.packed)
    more = ["--started", repr(a.started)]
    if not os.path.isdir(folder):
        file, folder = folder, absolute(a.unpack)
        if not folder:
            folder = tempfile.mkdtemp(prefix="gpu_check.")
            more += ["--temporary", folder]
        os.makedirs(folder, exist_ok=True)
        try:
            archive.unpack(file, folder)
        except BaseException:
            if not a.unpack:
                shutil.rmtree(folder)
            raise
    elif not archive.packed_commit(folder):
        raise RuntimeError(f"--packed: {folder}: expected what --pack makes")
    if not a.out:
        more += ["--out", os.environ.get("OUT") or os.path.join(os.getcwd(), "build/gpu_check")]
    kept, take = [], False  # all words but --packed and --unpack with their values
    for word in words:
        if take:
            take = False
        elif word in ("--packed", "--unpack"):
            take = True
        elif not word.startswith(("--packed=", "--unpack=")):
            kept.append(word)
    script = os.path.join(folder, "tools/gpu_check/main.py")
    os.execv(sys.executable, [sys.executable, "-B", "-u", script, *kept, *more])


def set_up(a, cublaslt_folder, temporary):
    """Environment of our own programs; python3 keeps this process's, since our libraries are none of its business."""
    env = dict(os.environ)
    if cublaslt_folder:
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [cublaslt_folder, env.get("LD_LIBRARY_PATH")]))
    if a.plugin:
        env["HLITE_CUDA_LIBRARY"] = absolute(a.plugin)
    env["XDG_CACHE_HOME"] = os.path.join(temporary, "cache")  # the fastest matrix products of this device, found here
    return env


def keep_algorithms(env, session):
    """What was found out of this device's matrix products: which of cuBLASLt's epilogues are fast, and right."""
    found = os.path.join(env["XDG_CACHE_HOME"], "hugectr_lite/matmul_algorithms.txt")
    if os.path.exists(found):
        shutil.copy(found, session.kept("matmul_algorithms.txt"))


def all_parts(session, parts):
    for part in parts:
        session.checks.begin(part)
        PARTS[part](session)
        yield part


def check_all(a, root, programs, commit, temporary):
    out = absolute(a.out or os.environ.get("OUT")) or os.path.join(root, "build/gpu_check")
    work = absolute(a.data) or temporary
    card = machine.graphics_card()
    cublaslt, cublaslt_folder = machine.find_cublaslt()
    env = set_up(a, cublaslt_folder, temporary)
    device, why = machine.plugin_device(env, programs, root, os.path.join(temporary, "device.txt"))
    if not device and not card:
        print(f"gpu_check.sh: no GPU: nvidia-smi lists none, and {why}", file=sys.stderr)
        return NO_GPU

    for folder in (out, work):
        os.makedirs(folder, exist_ok=True)
    report = os.path.join(out, "report.md")
    begin = os.path.getsize(report) if os.path.exists(report) else 0
    deadline = time.monotonic() + a.started - time.time() + 60 * a.minutes
    env["HLITE_REQUIRE_GPU"] = "1"
    checks = Checks(report, os.path.join(temporary, "logs"), deadline, a.minutes, env)
    session = Session(root=root, bin=programs, work=work, out=out, checks=checks,
                      card_megabytes=card[2] if card else 0, gpus=card[3] if card else 1, small=a.small, rows=a.rows,
                      files=a.files, other=absolute(a.other))

    def plugin_sees_gpu():
        if not device:
            raise Failed(f"nvidia-smi lists {card[0]}, but {why}")
        return [device]

    try:
        now = datetime.datetime.now(datetime.timezone.utc)
        checks.line(f"\n## GPU check, {now:%Y-%m-%d %H:%M}, {f'visit {a.visit}' if a.visit else ', '.join(a.parts)}\n")
        for line in machine.lines(card, device or card[0], cublaslt, commit) + [""]:
            checks.line(line)
        if checks.check("device", plugin_sees_gpu):
            for _ in visits.run(session, a.visit) if a.visit else all_parts(session, a.parts):
                checks.keep_logs(session.kept("logs.tar.gz"))
                keep_algorithms(env, session)
        return FAILED if checks.failed else PASSED
    except SystemExit as end:
        checks.line(f"- ended by {signal_name(end.code - 128)}; what would have followed was not run")
        raise
    finally:
        checks.summary()
        checks.keep_logs(session.kept("logs.tar.gz"))
        if a.results:
            with open(report, encoding="utf-8") as new, open(a.results, "a", encoding="utf-8") as file:
                new.seek(begin)
                shutil.copyfileobj(new, file)
        print(f"the report is {report}", flush=True)


def main(words):
    a = arguments(words)
    for each in ENDING:
        signal.signal(each, interrupted)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    packed = archive.packed_commit(root)
    try:
        if a.packed:
            go_into_archive(a, words)
        if a.pack:
            if packed:
                raise RuntimeError("--pack: this is an unpacked archive; pack in a source tree")
            size = archive.pack(root, build.build(root, 1e9, a.architectures), absolute(a.pack))
            print(f"{a.pack}: {size / 1e6:.1f} MB")
            return PASSED
        programs, commit = absolute(a.bin), build.commit(root)
        if packed:
            programs, commit = programs or os.path.join(root, "bin"), packed
        if not programs:
            if not a.plugin and not machine.graphics_card():
                print("gpu_check.sh: no GPU: nvidia-smi lists none; --pack builds without one", file=sys.stderr)
                return NO_GPU
            programs = build.build(root, a.started + 60 * a.minutes - time.time(), a.architectures)
        if not os.access(os.path.join(programs, "train"), os.X_OK):
            raise RuntimeError(f"{programs}: expected the programs of a build, found no train")
        in_memory = not a.data and machine.free_megabytes(machine.MEMORY) > 8000
        with tempfile.TemporaryDirectory(prefix="gpu_check.", dir=machine.MEMORY if in_memory else None) as temporary:
            return check_all(a, root, programs, commit, temporary)
    except RuntimeError as why:
        print(f"gpu_check.sh: {why}", file=sys.stderr)
        return USAGE
    finally:
        if a.temporary:
            shutil.rmtree(a.temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
