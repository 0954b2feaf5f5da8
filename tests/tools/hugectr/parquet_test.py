#!/usr/bin/env python3
"""Scripts in the form of HugeCTR's DIN, BST and MMoE samples, on Parquet files with the columns of theirs: translated they
train to a falling loss. HLITE_PROGRAMS names the programs' folder; needs pyarrow."""
import json
import os
import sys
import tempfile
import unittest

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from python_test import program, sample, translate  # noqa: E402

PAST = 10


def write(folder, table, labels, conts=()):
    """As NVTabular does: files, the list of them and _metadata.json."""
    os.makedirs(folder)
    path = os.path.join(folder, "part_0.parquet")
    pq.write_table(pa.table(table), path)
    with open(os.path.join(folder, "_file_list.txt"), "w", encoding="utf-8") as file:
        file.write(f"1\n{path}\n")
    kind = {name: "labels" if name in labels else "conts" if name in conts else "cats" for name in table}
    columns = {of: [{"col_name": name, "index": i} for i, name in enumerate(table) if kind[name] == of]
               for of in ("labels", "conts", "cats")}
    with open(os.path.join(folder, "_metadata.json"), "w", encoding="utf-8") as file:
        json.dump({"file_stats": [{"file_name": "part_0.parquet", "num_rows": len(table[labels[0]])}], **columns}, file)


def behaviour(rows, draw, length, padding):
    """A user's items, the target last, their categories; label 1 mostly where the target's category is among those before."""
    good = draw.integers(0, 500, (rows, PAST + 1))
    count = draw.integers(1, PAST + 1, rows)
    seen = ((good[:, :PAST] % 40 == good[:, PAST:] % 40) & (np.arange(PAST) < count[:, None])).any(1)
    good[:, PAST] = np.where(draw.random(rows) < 0.5, good[:, 0] % 40 + 40 * draw.integers(0, 12, rows), good[:, PAST])
    good[:, :PAST][np.arange(PAST) >= count[:, None]] = 0
    seen |= good[:, PAST] % 40 == good[:, 0] % 40
    cate = good % 40
    good[:, :PAST][np.arange(PAST) >= count[:, None]] = padding
    cate[:, :PAST][np.arange(PAST) >= count[:, None]] = padding
    table = {"UID": draw.integers(0, 300, rows), **{f"MID{i}": good[:, i] for i in range(PAST + 1)},
             **{f"CID{i}": cate[:, i] for i in range(PAST + 1)},
             "LABEL": (draw.random(rows) < np.where(seen, 0.9, 0.1)).astype(np.int64)}
    return {"SLEN": count.astype(np.float32), **table} if length else table


def census(rows, draw):
    keys = draw.integers(0, 50, (rows, 32))
    return {**{f"key{i}": keys[:, i] for i in range(32)}, "income_50k": (keys[:, 0] < 15).astype(np.int64),
            "marital_status": (keys[:, 1] < 20).astype(np.int64)}


class HugectrSamplesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def data(self, model, padding=0):
        for part, rows, seed in (("train", 8000, 1), ("valid", 256, 2)):
            draw, path = np.random.default_rng(seed), os.path.join(self.folder, model, part)
            if model == "mmoe":
                write(path, census(rows, draw), ["income_50k", "marital_status"])
            else:
                write(path, behaviour(rows, draw, model == "bst", padding), ["LABEL"], ["SLEN"])

    def config(self, model):
        path = os.path.join(self.folder, model + ".json")
        made = translate("--out", path, sample("behaviour_models.py"), "--model", model, "--folder", os.path.join(self.folder, model))
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return path

    def test_they_train_to_a_falling_loss(self):
        for model in ("din", "bst", "mmoe"):
            with self.subTest(model):
                self.data(model)
                path, metrics = self.config(model), os.path.join(self.folder, model + ".jsonl")
                checked = program("train", "--check", "--config", path)
                self.assertIn("the config is valid", checked.stdout, checked.stderr)
                # The graph file that the script would write has layers only.
                with open(path, encoding="utf-8") as file:
                    config = json.load(file)
                for name, keys in (("graph.json", ["layers"]), ("solver.json", ["solver", "optimizer", "all_reduce"])):
                    with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                        json.dump({key: config[key] for key in keys}, file)
                rate = "sgd" if model == "mmoe" else "adam"
                evals = []
                for files in (["--config", path],
                              ["--config", os.path.join(self.folder, "graph.json"), "--solver", os.path.join(self.folder, "solver.json")]):
                    run = program("train", *files, "--metrics", metrics, "--quiet", "--device", "cpu", "--set", "solver.seed=3",
                                  "--set", "solver.max_iter=120", "--set", f"optimizer.{rate}_hparam.learning_rate=0.005")
                    self.assertEqual(run.returncode, 0, run.stderr)
                    with open(metrics, encoding="utf-8") as file:
                        evals.append([json.loads(line)["loss"] for line in file if '"eval"' in line])
                self.assertLess(min(evals[0]), evals[0][0])
                self.assertEqual(*evals)  # one config in one file or in two

    def test_padding_is_no_key(self):
        self.data("din", padding=-1)
        train = ["train", "--config", self.config("din"), "--quiet", "--device", "cpu", "--set", "solver.max_iter=2"]
        run = program(*train)
        self.assertEqual(run.returncode, 3)
        self.assertRegex(run.stderr, r'column "MID\d", row 0: expected a key in \[0, 499\], .*, found -1')
        self.assertIn("% of keys were outside of their tables", program(*train, "--set", "layers.data.key_policy=oov").stderr)


if __name__ == "__main__":
    unittest.main()
