#!/usr/bin/env python3
"""tools/hugectr_python.py: small scripts in the forms of HugeCTR's samples become configs that `train --check` accepts
and that train; what has no translation is named with its line. HLITE_PROGRAMS names the programs' folder."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "..", "..", "..", "tools", "hugectr_python.py")
HEAD = """import hugectr
solver = hugectr.CreateSolver(batchsize=64, batchsize_eval=64, max_eval_batches=1)
reader = hugectr.DataReaderParams(data_reader_type=hugectr.DataReaderType_t.Norm, source=["a.txt"], eval_source="b.txt")
optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.SGD)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim=1, label_name="y", dense_dim=2, dense_name="x", data_reader_sparse_param_array=[
    hugectr.DataReaderSparseParam("k", 1, True, 2)]))
model.add(hugectr.SparseEmbedding(hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash, 1, 4, "sum", "e", "k",
                                  slot_size_array=[5, 6]))
model.add(hugectr.DenseLayer(hugectr.Layer_t.Reshape, ["e"], ["r"], leading_dim=8))
model.add(hugectr.DenseLayer(hugectr.Layer_t.Concat, ["r", "x"], ["c"]))
model.add(hugectr.DenseLayer(hugectr.Layer_t.InnerProduct, ["c"], ["z"], num_output=1))
model.add(hugectr.DenseLayer(hugectr.Layer_t.BinaryCrossEntropyLoss, ["z", "y"], ["loss"]))
"""
LINES = HEAD.count("\n")


def program(name, *arguments, folder=None):
    return subprocess.run([os.path.join(os.environ["HLITE_PROGRAMS"], name), *arguments], cwd=folder,
                          capture_output=True, text=True, check=False)


def translate(*arguments):
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)


def sample(name):
    return os.path.join(HERE, "hugectr_scripts", name)


class HugectrPythonTest(unittest.TestCase):
    def config(self, *arguments):
        result = translate(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout), result.stderr

    def check(self, config):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            result = program("train", "--check", "--config", path)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return result.stdout

    def script(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return translate(path)

    def test_models_train_to_a_falling_loss(self):
        with tempfile.TemporaryDirectory() as folder:
            made = program("criteo_synth", "--format", "raw", "--train", "90000", "--test", "3000", "--out",
                           os.path.join(folder, "synth"))
            self.assertEqual(made.returncode, 0, made.stderr)
            for model in ("dcn", "deepfm", "wdl"):
                path, metrics = os.path.join(folder, model + ".json"), os.path.join(folder, model + ".jsonl")
                result = translate("--out", path, sample("click_models.py"), "--model", model, "--folder", folder)
                self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
                run = program("train", "--config", path, "--metrics", metrics, "--quiet", "--device", "cpu")
                self.assertEqual(run.returncode, 0, run.stderr)
                with open(metrics, encoding="utf-8") as file:
                    evals = [json.loads(line) for line in file if '"eval"' in line]
                self.assertEqual(len(evals), 3)
                self.assertLess(evals[-1]["loss"], evals[0]["loss"], model)
                self.assertGreater(evals[-1]["auc"], 0.55, model)

    def test_collection_in_one_lookup_or_in_many(self):
        one, remarks = self.config(sample("collection.py"))
        self.assertIn("the module mlperf_logger_that_is_not_installed is not installed", remarks)
        self.assertIn("collection.py:5: ", remarks)
        sparse = one["layers"][0]["sparse"]
        self.assertEqual(sparse, [{"top": "vectors.vectors.keys", "slot_num": 4, "nnz_per_slot": [1, 3, 2, 1],
                                   "is_fixed_length": True}])
        self.assertEqual(one["optimizer"]["adagrad_hparam"],
                         {"learning_rate": 0.05, "warmup_steps": 10, "decay_start": 20, "decay_steps": 30,
                          "decay_power": 2.0, "end_lr": 0.0, "initial_accu_value": 0.1, "epsilon": 1e-8})
        self.assertEqual(one["all_reduce"], {"algo": "Oneshot", "grouped": True})
        self.assertEqual(one["solver"]["gpu"], [0, 1])
        self.assertEqual(one["solver"]["eval_metrics"], ["AUC:0.8", "AverageLoss"])
        each, _ = self.config(sample("collection.py"), "--each")
        self.assertEqual(len(each["layers"][0]["sparse"]), 4)
        width = 8 + 5 * 4 // 2 + 1
        for config in (one, each):
            self.assertRegex(self.check(config), rf"interaction1 +Interaction +\[B,{width}\]")
        nodes, _ = self.config("--nodes", "3", sample("collection.py"))
        self.assertEqual(nodes["solver"]["gpu"], [[0, 1]] * 3)

    def test_several_labels_and_shared_vocabularies(self):
        config, remarks = self.config(sample("two_labels.py"))
        self.assertIn("the metric HitRate is left out", remarks)
        self.assertIn("the loss scale 16348 becomes 1024", remarks)
        loss = config["layers"][-1]
        self.assertEqual((loss["type"], loss["bottom"], loss["target_weight"]),
                         ("MultiCrossEntropyLoss", ["logits", "labels"], [1.5, 0.5]))
        self.assertEqual(config["layers"][-2]["bottom"], ["z_rich", "z_married"])
        self.assertEqual(config["solver"]["num_epochs"], 3)
        self.assertEqual(config["layers"][1]["optimizer"]["ftrl_hparam"],
                         {"learning_rate": 0.001, "beta": 0.9, "lambda1": 0.1, "lambda2": 0.2})
        # Sizes 30, 0, 0, 12: the three slots of goods share one table.
        self.assertRegex(self.check(config), r"e_goods +\w+ +\[B,3,4\] +\d+ +1 tables")

    def test_calls_without_a_translation_are_named_with_their_line(self):
        dense = "model.add(hugectr.DenseLayer(hugectr.Layer_t.{}))\n"
        for tail, message in (
                (dense.format('GRU, ["z"], ["g"]') + "model.fit()\n", "DenseLayer: GRU takes a history and its lengths here"),
                (dense.format('Gather, ["z"], ["g"]') + "model.fit()\n", "DenseLayer: train has no layer Gather"),
                (dense.format('ReLU, ["z"], ["g"], slope=3') + "model.fit(max_iter=2)\n",
                 "DenseLayer: the argument slope has no translation"),
                ("model.train()\n", "Model.train: a loop of train() has no translation"),
                ("hugectr.inference()\n", "hugectr.inference: the name has no translation"),
                ("try:\n    model.train()\nexcept Exception:\n    pass\n", "Model.train: a loop of train()"),
                ("model.fit(max_iter=2, colour=3)\n", "Model.fit: the argument colour has no translation"),
                ("raise ValueError('no data')\n", "the script failed: ValueError: no data"),
                ("import hugectr.inference\n", "the script failed: ModuleNotFoundError")):
            with self.subTest(tail):
                result = self.script(HEAD + tail)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assertIn(message, result.stderr)
                self.assertRegex(result.stderr, rf"model\.py:({LINES + 1}|{LINES + 2}): ")
        self.assertIn("expected a call of fit()", self.script(HEAD).stderr)
        self.assertIn("expected a hugectr.Model", self.script("import hugectr\n").stderr)
        self.assertIn("no such file", translate("/nonexistent.py").stderr)
        for argument, message in (("--dynamic", r"collection\.py:\d+: EmbeddingTableConfig: a dynamic table"),
                                  ("--unknown_seed", r"collection\.py:\d+: CreateSolver: seed comes from a module"),
                                  ("--nope", r"ended with exit code 2 before fit\(\)")):
            result = translate(sample("collection.py"), argument)
            self.assertEqual(result.returncode, 2)
            self.assertTrue(re.search(message, result.stderr), result.stderr)

    def test_a_module_can_be_left_out(self):
        text = HEAD.replace("import hugectr\n", "import hugectr, json\n") + "json.loads('no JSON')\nmodel.fit()\n"
        self.assertEqual(self.script(text).returncode, 2)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            config, _ = self.config("--without", "json", path)
        self.assertEqual(config["solver"]["max_iter"], 2000)
        self.check(config)


if __name__ == "__main__":
    unittest.main()
