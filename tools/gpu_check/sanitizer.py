"""Runs the kernel tests under compute-sanitizer, if it works on this machine."""
import glob
import os
import shutil

from checks import Failed, NotRun, last_lines
from unit_tests import command, run_tests, test_files

LIMIT = 240  # seconds for a test file
# A test that uses memory, copies and a stream of the device, but none of our kernels.
PROBE = "[gpu-probe]"


def find_sanitizer():
    places = [shutil.which("compute-sanitizer")] + sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"))
    return next(filter(None, places), None)


def check_it_works(session, tool):
    """Raises NotRun if the sanitizer is missing or cannot run, for example in a sandbox."""
    program = session.program("cuda_tests")
    if not tool:
        raise NotRun("compute-sanitizer is not here")
    try:
        run_tests(session, [program, PROBE], 60)
    except Failed as why:
        raise NotRun(f"the GPU fails a trivial test without it: {why}") from why
    try:
        run_sanitized(session, tool, "memcheck", [program, PROBE], 60)
    except Failed as why:
        messages = [line.strip("= ") for line in last_lines(session.checks.log) if line.startswith("========= ")]
        reason = next((line for line in messages if "SUMMARY" not in line and line != "COMPUTE-SANITIZER"), "")
        raise NotRun(f"compute-sanitizer does not work here: {why}; {reason}") from why


def run_sanitized(session, tool, kind, test, limit):
    """Raises Failed also if the sanitizer exits with 0 but has not run the program; one version did that."""
    before = session.checks.logged("All tests passed")
    # Some tests make calls that CUDA refuses, and check the error.
    more = ["--report-api-errors", "no"] if kind == "memcheck" else []
    session.checks.program([tool, "--tool", kind, *more, "--error-exitcode", "9", *test], limit)
    if session.checks.logged("All tests passed") == before:
        raise Failed("the sanitizer has not run the tests")


def run(session, wanted=None):
    """wanted: [(kind, test file)] in their order; None: memcheck and racecheck of all."""
    checks, tool, files = session.checks, find_sanitizer(), []

    def probe():
        check_it_works(session, tool)
        files.extend(test_files(session, [name for _, name in wanted or []]))
        return [f"{os.path.realpath(tool)}, {len(files)} files"]

    kinds = sorted({kind for kind, _ in wanted} if wanted else {"memcheck", "racecheck"})
    if not checks.check("sanitizer-probe", probe):
        for kind in kinds:
            checks.skip(f"sanitizer-{kind}", "see sanitizer-probe")
        return
    # What the session asks for, it asks of all kinds.
    pairs = wanted if wanted and not session.files else [(kind, name) for kind in kinds for name, _ in files]
    for kind, name in pairs:
        test = command(session, name, dict(files)[name])
        checks.check(f"sanitizer-{kind}-{name}",
                     lambda kind=kind, test=test: run_sanitized(session, tool, kind, test, LIMIT))
