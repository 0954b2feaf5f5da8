"""Checks with three states (passed, FAILED, not run), each written into the report as soon as it ends."""
import math
import os
import shutil
import tarfile
import time

from processes import run_limited, within

LAST_LINES = 12


class Failed(Exception):
    """What the check looked at is wrong."""


class NotRun(Exception):
    """The check says nothing about what it looks at."""


class Checks:
    """report: file that lines are added to. deadline: time.monotonic() after which nothing is begun and at which what
    runs is ended. env: of our own programs."""
    def __init__(self, report, logs, deadline, minutes, env):
        self.report, self.logs, self.deadline, self.minutes, self.env = report, logs, deadline, minutes, env
        self.part, self.part_seconds, self.part_deadline = "", 0, math.inf
        self.passed, self.failed, self.not_run = [], [], []
        self.log = None  # of the check that is going on
        os.makedirs(logs, exist_ok=True)

    def begin(self, part, seconds=math.inf):
        """What follows is a part of the check, which may take so long."""
        self.part, self.part_seconds = part, within(seconds)
        self.part_deadline = time.monotonic() + self.part_seconds
        self.line(f"\n### {part}\n")

    def left(self):
        """Seconds until this part or the whole check is over."""
        return min(self.deadline, self.part_deadline) - time.monotonic()

    def line(self, text=""):
        print(text, flush=True)
        with open(self.report, "a", encoding="utf-8") as file:  # closed at once: a killed run keeps its lines
            file.write(text + "\n")

    def quote(self, lines):
        for text in lines:
            self.line("      " + text)

    def check(self, name, body, late=False):
        """Runs body(), which returns lines for the report or raises Failed or NotRun. Whether it passed. `late`: also
        when the minutes are over, of what takes none."""
        print(f"\n== {name}", flush=True)
        self.log = os.path.join(self.logs, name + ".log")
        start = time.monotonic()
        try:
            if self.left() <= 0 and not late:
                raise NotRun(self.time_over())
            lines = body() or []
        except NotRun as why:
            self.not_run.append(name)
            self.line(f"- {name}: not run: {why}")
            return False
        except Exception as why:  # a result that is missing or makes no sense fails this check and no other
            self.fail(name, why)
            return False
        self.passed.append(name)
        self.line(f"- {name}: passed, {time.monotonic() - start:.1f} s")
        self.quote(lines)
        return True

    def fail(self, name, why):
        self.failed.append(name)
        said = str(why) if isinstance(why, Failed) else f"{type(why).__name__}: {why}"
        self.line(f"- {name}: FAILED: {said}")
        self.quote(last_lines(self.log))

    def skip(self, name, why):
        self.not_run.append(name)
        self.line(f"- {name}: not run: {why}")

    def time_over(self):
        if self.part_deadline < self.deadline:
            return f"the {self.part_seconds:g} s of {self.part} are over"
        return f"the {self.minutes:g} minutes are over"

    def program(self, command, limit, out=None, env=None, cwd=None):
        """Runs a program of a check within `limit` seconds; what it prints goes into the check's log, standard
        output into the file `out` where one is named. Raises Failed or NotRun."""
        if not shutil.which(str(command[0])):
            raise NotRun(f"{command[0]} is not here")
        limit, left = within(limit), self.left()
        if left <= 0:
            raise NotRun(self.time_over())
        with open(self.log, "ab") as log:
            log.write((" ".join(map(str, command)) + "\n").encode())
            log.flush()
            if out:
                with open(out, "ab") as file:
                    ended = run_limited(command, min(limit, left), file, log, env or self.env, cwd)
            else:
                ended = run_limited(command, min(limit, left), log, None, env or self.env, cwd)
        if ended.overran:
            raise NotRun(self.time_over() if left < limit else f"no end within its {limit:g} s")
        if ended.code != 0:
            raise Failed(ended.how())

    def logged(self, words):
        """How many lines of the check's log begin with these words."""
        if not os.path.exists(self.log):
            return 0
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return sum(line.startswith(words) for line in log)

    def keep_logs(self, archive):
        """All logs so far as one archive."""
        new = self.logs + ".tar.gz"
        with tarfile.open(new, "w:gz") as tar:
            tar.add(self.logs, "logs")
        shutil.move(new, archive)

    def summary(self):
        self.line(f"\n{len(self.passed)} passed, {len(self.failed)} FAILED, {len(self.not_run)} not run"
                  + "".join(f"\n- {what}: {', '.join(names)}" for what, names in
                            (("FAILED", self.failed), ("not run", self.not_run)) if names))


def last_lines(file):
    try:
        with open(file, encoding="utf-8", errors="replace") as log:
            return [line.rstrip() for line in log.readlines()[-LAST_LINES:]]
    except OSError:
        return []
