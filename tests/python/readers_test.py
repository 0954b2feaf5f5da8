#!/usr/bin/env python3
"""A checkpoint means one set of weights: everything that reads one gives the same scores. Run by ctest; HLITE_<PROGRAM>
names the programs, HLITE_PYTHON_ONNX a Python with onnx (or nothing)."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import hugectr_lite as hl
from small_model import config, features, samples, write_files

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "serve"))
from running_server import Server, json_request, json_scores  # noqa: E402

# The first evaluation is the best one, and training goes on for `patience` more.
EARLY = {"eval_interval": 10, "max_iter": 1000}


def early_stop(patience):
    return {**EARLY, "early_stop": {"patience": patience, "min_delta": 0.9}}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout


def program(name, *arguments):
    return run(os.environ["HLITE_" + name.upper()], *arguments)


def tool(name, *arguments):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # of another Python
    done = subprocess.run([os.environ["HLITE_PYTHON_ONNX"], os.path.join(ROOT, name), *arguments], capture_output=True,
                          text=True, check=False, env=env)
    if done.returncode:
        raise AssertionError(f"{name} {arguments}: {done.stderr}")
    return done.stdout


def scores(*model):
    program("predict", "--model", *model, "--input", "eval.bin", "--out", "scores.npy", "--quiet")
    return np.load("scores.npy")


class ReadersTest(unittest.TestCase):
    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        write_files(".")
        _, dense, keys = samples(333, 2)
        self.samples = features(dense), keys

    def train(self, name, *arguments, **solver):
        """Writes the checkpoint and returns the scores of `predict`. Its layers have the names that they get by default."""
        made = config(**solver)
        for layer in made["layers"][1:]:
            del layer["name"]
        with open(f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(made, file)
        program("train", "--config", f"{name}.json", "--save", name, "--quiet", *arguments)
        return scores(name)

    def check(self, found, expected):
        self.assertEqual(found.shape, expected.shape)
        self.assertLess(np.abs(found - expected).max(), 1e-6)

    def check_readers(self, name, expected):
        dense, keys = self.samples
        self.check(hl.Predictor(name).predict(dense, keys), expected)
        from_here = hl.Trainer(f"{name}.json", init=name)
        self.check(from_here.predict(dense, keys), expected)
        from_here.export("export.safetensors")
        self.check(scores("export.safetensors", "--config", f"{name}.json"), expected)
        with Server(models=(f"demo={name}",)) as server:
            self.check(json_scores(server.score(json_request(dense, keys.astype(np.int64)))[2]), expected)
        if os.environ.get("HLITE_PYTHON_ONNX"):
            self.check(self.onnx("--model", name), expected)
            self.check(self.by_hugectr("--model", name), expected)

    def onnx(self, *model):
        tool("tools/export_onnx.py", *model, "--out", "m.onnx")
        printed = tool("tests/predict/run_onnx.py", "m.onnx", "config.json", "eval.bin").split("\n")
        return np.array([float(line) for line in printed[1:] if line], np.float32)

    def by_hugectr(self, *model):
        """Written as HugeCTR's files, and read from them."""
        files = ("--prefix", "out/m", "--iteration", "1")
        tool("tools/hugectr_model.py", "to", *model, *files)
        tool("tools/hugectr_model.py", "from", "--config", f"{model[1]}.json", "--like", "export.safetensors", *files,
             "--out", "back.safetensors")
        return scores("back.safetensors", "--config", f"{model[1]}.json")

    def test_all_readers_take_the_weights_that_predict_takes(self):
        stopped = self.train("stopped", **early_stop(1))
        self.assertTrue(os.path.exists("stopped/best.safetensors"))
        self.check_readers("stopped", stopped)
        self.check_readers("whole", self.train("whole", max_iter=20))
        resumed = self.train("resumed", "--resume", "stopped", **early_stop(3))
        self.check(resumed, stopped)  # the best so far stayed the best
        self.check_readers("resumed", resumed)

    def test_the_last_weights_are_there_for_who_asks(self):
        best = self.train("stopped", **early_stop(1))
        last = scores("stopped/weights.safetensors", "--config", "stopped.json")
        self.assertGreater(np.abs(best - last).max(), 1e-3)
        hl.Trainer("stopped.json", init="stopped").export("export.safetensors")
        if os.environ.get("HLITE_PYTHON_ONNX"):
            self.check(self.onnx("--model", "stopped", "--which", "last"), last)
            self.check(self.by_hugectr("--model", "stopped", "--which", "last"), last)
            self.train("whole", max_iter=20)
            self.check(self.onnx("--model", "whole", "--which", "last"), scores("whole"))

    def test_a_file_that_the_manifest_does_not_name_is_not_the_best(self):
        whole = self.train("whole", max_iter=20)
        self.train("stopped", **early_stop(1))
        os.rename("stopped/best.safetensors", "whole/best.safetensors")
        self.check_readers("whole", whole)

    def test_a_run_that_goes_on_without_early_stop_is_used_with_its_last_weights(self):
        best = self.train("stopped", **early_stop(1))
        goes_on = self.train("goes_on", "--resume", "stopped", "--export", "end.safetensors", **{**EARLY, "max_iter": 50})
        self.assertGreater(np.abs(best - goes_on).max(), 1e-3)
        self.check(scores("end.safetensors", "--config", "goes_on.json"), goes_on)
        self.check_readers("goes_on", goes_on)

    def test_weights_that_a_caller_has_set_are_those_of_the_checkpoint(self):
        trainer = hl.Trainer(config(**early_stop(1)))
        list(trainer.train())
        for name, array in trainer.weights.items():
            array *= 2 if name.startswith("t1") else 1
        trainer.weights_changed()
        trainer.save("changed")
        self.check(hl.Predictor("changed").predict(*self.samples), trainer.predict(*self.samples))

    def test_a_chain_of_deltas_leads_to_the_weights_of_the_checkpoint(self):
        expected = {"one": self.train("one", **early_stop(1))}
        for name, before, solver in (("two", "one", early_stop(3)),   # none is better
                                     ("three", "two", {**EARLY, "max_iter": 70}),  # the last ones
                                     ("four", "three", {"eval_interval": 10, "max_iter": 110, "early_stop": {"patience": 50}})):
            expected[name] = self.train(name, "--resume", before, "--save-delta", "chain", **solver)
        self.check(expected["two"], expected["one"])
        self.assertGreater(np.abs(expected["three"] - expected["two"]).max(), 1e-3)
        for name in expected:
            self.check(scores(name, "--delta", "chain"), expected["four"])
        program("model_delta", "join", "chain", "--base", "one", "--out", "joined.safetensors")
        best = "four/best.safetensors"
        with open("joined.safetensors", "rb") as one, open(best, "rb") as other:
            self.assertEqual(one.read(), other.read())
        program("model_delta", "verify", "chain", "--base", "two")
        with Server("--deltas", "chain", models=("demo=one",)) as server:
            dense, keys = self.samples
            self.check(json_scores(server.score(json_request(dense, keys.astype(np.int64)))[2]), expected["four"])


if __name__ == "__main__":
    unittest.main()
