"""Runs a script with the recording module in place of HugeCTR."""
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import traceback
from unittest import mock

from .recorder import Fitted, Recording, Untranslated, fake_module


class ScriptFailed(Exception):
    """The script ended before its model was complete."""


def mpi_module(nodes):
    """mpi4py as rank 0 of so many nodes sees it."""
    module = mock.MagicMock(name="mpi4py")
    module.MPI.COMM_WORLD.Get_size.return_value = module.MPI.COMM_WORLD.size = nodes
    module.MPI.COMM_WORLD.Get_rank.return_value = module.MPI.COMM_WORLD.rank = 0
    return module


class MissingModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module that nothing else finds: one whose names are all there and whose calls do nothing."""
    def __init__(self, recording):
        self.recording, self.names = recording, []

    def find_spec(self, name, path=None, target=None):
        # A module that an installed package only tries to import is that package's business.
        frame = sys._getframe(1)
        while frame and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        folder = os.path.dirname(self.recording.script)
        inside = frame and frame.f_code.co_filename.startswith(folder + os.sep)
        if not inside and name.split(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        top = spec.name.split(".")[0]
        if top not in self.names:
            self.names.append(top)
            self.recording.warnings.append(f"{self.recording.line()}: the module {top} is not installed: its calls do "
                                           "nothing, and what the script decides by them is unknown")
        module = mock.MagicMock(name=spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def record(script, arguments, nodes, replaced=()):
    """Returns the Recording of a script, whose model is complete. `replaced`: modules to replace although they are
    installed. Raises Untranslated or ScriptFailed."""
    script = os.path.abspath(script)
    if not os.path.isfile(script):
        raise ScriptFailed(f"{script}: no such file")
    recording = Recording(script)
    mpi = mpi_module(nodes)
    finder = MissingModules(recording)
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "hugectr"}
    before = sys.argv, list(sys.path), sys.stdout
    sys.modules.update({"hugectr": fake_module(recording), "mpi4py": mpi, "mpi4py.MPI": mpi.MPI})
    for name in replaced:
        finder.names.append(name)
        sys.modules[name] = finder.create_module(importlib.machinery.ModuleSpec(name, finder))
    sys.meta_path.append(finder)
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(script)
    sys.stdout = sys.stderr  # standard output is for the config
    try:
        runpy.run_path(script, run_name="__main__")
    except Fitted:
        pass
    except Untranslated:
        raise
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ScriptFailed(f"{script}: ended with exit code {end.code} before fit(); arguments of the script "
                               "follow its name") from None
    except BaseException as problem:
        lines = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(problem.__traceback__)
                 if frame.filename == script]
        where = lines[-1] if lines else script
        raise ScriptFailed(f"{where}: the script failed: {type(problem).__name__}: {problem}") from None
    finally:
        sys.argv, sys.path[:], sys.stdout = before
        sys.meta_path.remove(finder)
        for name in ("hugectr", "mpi4py", "mpi4py.MPI", *replaced):
            sys.modules.pop(name, None)
        sys.modules.update(ours)
    if not recording.model:
        raise ScriptFailed(f"{script}: expected a hugectr.Model, found none")
    if not recording.model.fitted:
        raise ScriptFailed(f"{script}: expected a call of fit() on the model, found none")
    return recording
