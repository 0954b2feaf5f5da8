"""compute-sanitizer over the tests of kernels, where this machine lets it work."""
import glob
import os
import shutil

from checks import Failed, NotRun, last_lines
from unit_tests import command, run_tests, test_files

LIMIT = 240  # seconds for a file
# Uses the device (memory, copies, a stream), and none of our kernels.
TRIVIAL = "[gpu-probe]"


def find():
    places = [shutil.which("compute-sanitizer")] + sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"))
    return next(filter(None, places), None)


def works(session, tool):
    """Raises NotRun where the sanitizer is missing or refused, by a sandbox for example."""
    program = session.program("cuda_tests")
    if not tool:
        raise NotRun("compute-sanitizer is not here")
    try:
        run_tests(session, [program, TRIVIAL], 60)
    except Failed as why:
        raise NotRun(f"the GPU fails a trivial test without it: {why}") from why
    try:
        sanitized(session, tool, "memcheck", [program, TRIVIAL], 60)
    except Failed as why:
        said = [line.strip("= ") for line in last_lines(session.checks.log) if line.startswith("========= ")]
        reason = next((line for line in said if "SUMMARY" not in line and line != "COMPUTE-SANITIZER"), "")
        raise NotRun(f"compute-sanitizer does not work here: {why}; {reason}") from why


def sanitized(session, tool, kind, test, limit):
    """Raises Failed also where the sanitizer ends well without having run the program, as one was seen to do."""
    before = session.checks.logged("All tests passed")
    # Some tests make calls that CUDA must refuse; that the program handles.
    more = ["--report-api-errors", "no"] if kind == "memcheck" else []
    session.checks.program([tool, "--tool", kind, *more, "--error-exitcode", "9", *test], limit)
    if session.checks.logged("All tests passed") == before:
        raise Failed("the sanitizer has not run the tests")


def run(session):
    checks, tool, files = session.checks, find(), []

    def probe():
        works(session, tool)
        files.extend(test_files(session))
        return [f"{os.path.realpath(tool)}, {len(files)} files"]

    if not checks.check("sanitizer-probe", probe):
        for kind in ("memcheck", "racecheck"):
            checks.skip(f"sanitizer-{kind}", "see sanitizer-probe")
        return
    for kind in ("memcheck", "racecheck"):
        for name, program in files:
            test = command(session, name, program)
            checks.check(f"sanitizer-{kind}-{name}",
                         lambda kind=kind, test=test: sanitized(session, tool, kind, test, LIMIT))
