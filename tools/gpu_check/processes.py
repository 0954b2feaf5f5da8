"""Runs a program for a limited time, in a process group of its own, so that none of its processes survives."""
import os
import signal
import subprocess
import time
from dataclasses import dataclass

SLOW = [1]  # how often the times are that programs may take (--slow)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # of this program


@dataclass
class Ended:
    code: int       # exit code; below 0: the signal that ended it, negated
    overran: bool   # it was ended because its time was over
    seconds: float

    def how(self):
        return f"ended by {signal_name(-self.code)}" if self.code < 0 else f"exit code {self.code}"


def within(seconds):
    """The time that a program may take which takes at most so long on a machine with a GPU."""
    return seconds * SLOW[0]


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end(process):
    """Asks the process and its children to end, then makes them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(within(5))  # a process inside a driver that hangs may outlive even SIGKILL
        except subprocess.TimeoutExpired:
            pass


def run_limited(command, limit, out, err=None, env=None, cwd=None):
    """Ended, after at most `limit` seconds and a few to die in. Standard output goes to the open file `out`,
    standard error to `err`, without it to `out` too. Raises OSError where the program cannot be started."""
    start = time.monotonic()
    # A signal that came while the process starts or is ended would leave it running: it waits.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    process, overran = None, False
    try:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err or subprocess.STDOUT, env=env, cwd=cwd, start_new_session=True,
                                   preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        process.wait(max(limit, 0))
    except subprocess.TimeoutExpired:
        overran = True
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        if process:
            end(process)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Ended(code, overran, time.monotonic() - start)


def output_of(command, limit=20, env=None):
    """What a program prints on standard output; "" where it is missing, fails or takes too long."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=within(limit), env=env, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
