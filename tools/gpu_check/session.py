"""What the parts of a check share: programs, folders, sizes, and how they learn of the device."""
import os
from dataclasses import dataclass

from checks import Checks, NotRun


@dataclass
class Session:
    root: str            # of the source tree or of the unpacked archive: both hold the same files at the same places
    bin: str             # folder of the programs
    work: str            # folder for what is generated; removed in the end
    out: str             # folder for what is kept: numbers, one JSON object a line
    checks: Checks
    card_megabytes: int  # memory of the GPU
    gpus: int            # how many there are
    small: bool          # sizes for an emulated GPU
    rows: int            # samples of the generated file
    files: list          # test files to run; empty: all
    other: str           # folder of the programs to compare with, or None

    def program(self, name):
        path = os.path.join(self.bin, name)
        if not os.path.exists(path):
            raise NotRun(f"{name} is not built here")
        return path

    def scratch(self, name):
        return os.path.join(self.work, name)

    def kept(self, name):
        return os.path.join(self.out, name)
