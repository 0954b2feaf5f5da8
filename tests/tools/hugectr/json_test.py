#!/usr/bin/env python3
"""Configs in the forms of HugeCTR's versions, made here of small layers: they pass `train --check`, and train on data of
criteo_synth to a falling loss. HLITE_PROGRAMS names the programs' folder."""
import copy
import json
import os
import subprocess
import tempfile
import unittest

SLOTS = 26


def program(name, *arguments, folder=None):
    return subprocess.run([os.path.join(os.environ["HLITE_PROGRAMS"], name), *arguments], cwd=folder,
                          capture_output=True, text=True, check=False)


def layer(kind, bottom, top, **more):
    return {"name": top if isinstance(top, str) else top[0], "type": kind, "bottom": bottom, "top": top, **more}


def product(bottom, top, width):
    return layer("InnerProduct", bottom, top, fc_param={"num_output": width})


def adam(old):
    rate = {"alpha": 0.002} if old else {"learning_rate": 0.002}
    update = {"global_update": True} if old else {"update_type": "Global"}
    return {"type": "Adam", **update, "adam_hparam": {**rate, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}}


def form(net, width, old=False):
    """A config of 2.2 (`old`) or of 25.03 around the layers `net`, whose embedding is "embedding"."""
    solver = {"lr_policy": "fixed", "display": 100, "max_iter": 300, "seed": 7, "gpu": [0], "batchsize": 256, "snapshot": 10000000,
              "snapshot_prefix": "./", "eval_interval": 100, ("eval_batches" if old else "max_eval_batches"): 8}
    sparse = {"top": "keys", "slot_num": SLOTS}
    tables = {"embedding_vec_size": width}
    if old:
        sparse.update(type="DistributedSlot", max_feature_num_per_sample=30, max_nnz=1)
        tables.update(max_vocabulary_size=100000, combiner=0)
    else:
        sparse.update(is_fixed_length=True, nnz_per_slot=[1] * SLOTS)
        tables.update(workspace_size_per_gpu_in_mb=16, combiner="sum")
    embedding = layer("DistributedSlotSparseEmbeddingHash", "keys", "embedding", sparse_embedding_hparam=tables,
                      plan_file="all2all_plan.json")
    if not old:
        embedding["optimizer"] = adam(old)
    data = {"name": "data", "type": "Data", "format": "RawAsync", "source": "synth.train.bin",
            "eval_source": "synth.test.bin", "check": "None", "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 13},
            "sparse": [sparse]}
    return {"solver": solver, "optimizer": adam(old), "layers": [data, embedding, *copy.deepcopy(net)]}


def loss(logit):
    return layer("BinaryCrossEntropyLoss", [logit, "label"], "loss")


DCN = [layer("Reshape", "embedding", "flat", leading_dim=SLOTS * 8), layer("Concat", ["flat", "dense"], "all"),
       layer("Slice", "all", ["left", "right"], ranges=[[0, SLOTS * 8 + 13]] * 2),
       layer("MultiCross", "left", "cross", mc_param={"num_layers": 2}), product("right", "hidden", 32),
       layer("ReLU", "hidden", "relu"), layer("Dropout", "relu", "dropped", rate=0.1),
       layer("Concat", ["dropped", "cross"], "both"), product("both", "logit", 1), loss("logit")]
WDL = [layer("Reshape", "embedding", "flat", leading_dim=SLOTS * 8), layer("Concat", ["flat", "dense"], "all"),
       product("all", "hidden", 32), layer("ReLU", "hidden", "relu"), product("relu", "deep", 1),
       product("dense", "wide", 1), layer("Add", ["deep", "wide"], "logit"), loss("logit")]
DEEPFM = [layer("Reshape", "embedding", "rows", leading_dim=9),
          layer("Slice", "rows", ["vectors", "weights"], ranges=[[0, 8], [8, 9]]),
          layer("Reshape", "vectors", "flat", leading_dim=SLOTS * 8), layer("Reshape", "weights", "linear", leading_dim=SLOTS),
          layer("WeightMultiply", "dense", "numbers", weight_dims=[13, 8]), layer("Concat", ["flat", "numbers"], "all"),
          product("all", "hidden", 32), layer("ReLU", "hidden", "relu"), product("relu", "deep", 1),
          layer("FmOrder2", "all", "pairs", out_dim=8), layer("ReduceSum", "pairs", "second"),
          layer("ReduceSum", "linear", "first", axis=1), layer("Add", ["deep", "first", "second"], "logit"),
          loss("logit")]
DLRM = [{"type": "MLP", "bottom": "dense", "top": "mlp1",
         "mlp_param": {"num_output": 1, "num_outputs": [32, 8], "activation": "Relu", "use_bias": True}},
        layer("Interaction", ["mlp1", "embedding"], ["pairs", "pairs_grad"]),
        {"type": "MLP", "bottom": ["pairs", "pairs_grad"], "top": "mlp2",
         "mlp_param": {"num_output": 1, "num_outputs": [32, 1], "activations": ["Relu", "None"], "use_bias": True}},
        loss("mlp2")]
MODELS = {"dcn": (DCN, 8), "wdl": (WDL, 8), "deepfm": (DEEPFM, 9), "dlrm": (DLRM, 8)}


def auc(scores, labels):
    """By its definition: the share of pairs of a positive and a negative in their order, ties half."""
    ranked = sorted(zip(scores, labels))
    positives, pairs, at = 0, 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        ones = sum(label for _, label in ranked[at:end])
        pairs += (end - at - ones) * (sum(labels) - positives - ones) + (end - at - ones) * ones / 2
        positives += ones
        at = end
    return pairs / (sum(labels) * (len(labels) - sum(labels)))


class HugectrJsonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        made = program("criteo_synth", "--format", "raw", "--train", "90000", "--test", "3000", "--out",
                       os.path.join(cls.folder, "synth"))
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def write(self, name, config):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return path

    def train(self, config, *arguments, code=0):
        result = program("train", "--config", self.write("config.json", config), "--device", "cpu", *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def evaluations(self, config, *arguments):
        metrics = os.path.join(self.folder, "metrics.jsonl")
        self.train(config, "--metrics", metrics, "--quiet", *arguments)
        with open(metrics, encoding="utf-8") as file:
            return [event for event in map(json.loads, file) if event["event"] == "eval"]

    def test_models_of_both_ends_train_to_a_falling_loss(self):
        for name, (net, width) in MODELS.items():
            evals = self.evaluations(form(net, width))
            self.assertEqual(len(evals), 3)
            self.assertLess(evals[2]["loss"], evals[0]["loss"], name)
            self.assertGreater(evals[2]["auc"], 0.6, name)
            old = form(net, width, old=True)
            if name == "dcn":  # the same model in the words of 2.2, to the same bits
                again = self.evaluations(old)
                new = form(net, width)
                new["layers"][1]["sparse_embedding_hparam"] = {"embedding_vec_size": width, "combiner": "sum",
                                                               "max_vocabulary_size_per_gpu": 100000}
                self.assertEqual([e["loss"] for e in again], [e["loss"] for e in self.evaluations(new)])
            else:
                self.train(old, "--check")

    def test_rows_of_all_ranks_together(self):
        config = form(DCN, 8, old=True)
        config["solver"]["gpu"] = [0, 1, 2]
        config["solver"].update(batchsize=255, batchsize_eval=300)
        tables = config["layers"][1]["sparse_embedding_hparam"]
        tables["max_vocabulary_size"] = 100001  # 33334 on each of three
        self.assertIn("up to 33334 rows a rank", self.train(config, "--check"))
        tables["vocabulary_size"] = tables.pop("max_vocabulary_size")
        tables["load_factor"] = 0.75
        config["layers"][1]["type"] = "SparseEmbedding"
        self.assertIn("up to 33334 rows a rank", self.train(config, "--check"))
        del tables["vocabulary_size"], tables["load_factor"]
        tables["max_vocabulary_size_per_gpu"] = 33334
        tables["max_vocabulary_size"] = 3
        self.assertIn("expected either max_vocabulary_size_per_gpu or max_vocabulary_size, found both",
                      self.train(config, "--check", code=2))

    def test_auc_threshold_ends_training(self):
        config = form(WDL, 8)
        config["solver"]["auc_threshold"] = 0.2
        self.assertEqual(len(self.evaluations(config)), 1)
        config["solver"]["auc_threshold"] = 0.9999
        self.assertEqual(len(self.evaluations(config)), 3)

    def test_predictions_are_those_of_the_evaluation(self):
        for ranks in ([0], [0, 1]):
            config = form(WDL, 8)
            config["solver"].update(gpu=ranks, max_iter=100, export_predictions_prefix="made/here/of_")
            self.train(config, "--check")  # makes nothing
            self.assertEqual(os.path.exists(os.path.join(self.folder, "made")), ranks == [0, 1])
            event = self.evaluations(config)[-1]
            numbers = {}
            for what in ("prediction", "label"):
                with open(os.path.join(self.folder, "made/here/of_" + what), encoding="utf-8") as file:
                    numbers[what] = [float(line) for line in file]
            self.assertEqual(len(numbers["label"]), event["samples"])
            self.assertTrue(all(0 < p < 1 for p in numbers["prediction"]))
            self.assertAlmostEqual(auc(numbers["prediction"], numbers["label"]), event["auc"], places=6)
        # A folder that cannot be made: --check says so, training ends before it begins.
        config["solver"]["export_predictions_prefix"] = "/dev/null/p"
        self.assertIn("solver.export_predictions_prefix", self.train(config, "--check"))
        self.assertIn("solver.export_predictions_prefix", self.train(config, code=2))

    def test_a_graph_file_and_its_solver(self):
        whole = form(DLRM, 8)
        graph = {"layers": whole["layers"]}
        self.assertIn("--solver FILE", self.train(graph, "--check", code=2))
        solver = self.write("solver.json", {key: whole[key] for key in ("solver", "optimizer")})
        with_file = self.evaluations(graph, "--solver", solver, "--set", "solver.seed=3")
        whole["solver"]["seed"] = 3  # not that of the file
        self.assertEqual([e["loss"] for e in with_file], [e["loss"] for e in self.evaluations(whole)])

    def test_what_warns(self):
        config = form([*DCN[:-1], layer("ReLU", "logit", "to_nobody"), DCN[-1]], 8)
        config["solver"]["model_file"] = "./none.model"
        for text in (self.train(config, "--check"), self.train(config, "--set", "solver.max_iter=20")):
            self.assertEqual(text.count('tensor "to_nobody" is not used by any layer'), 1)
            self.assertEqual(text.count("there is no file ./none.model; training does not start from it"), 1)
        config["solver"]["model_file"] = "synth.train.bin"
        self.assertIn("tools/hugectr_model.py makes a safetensors file of it", self.train(config, "--check", code=2))

    def test_data_of_2_0(self):
        net = [layer("Concat", "embedding", "flat"), product("flat", "hidden", 32), layer("ReLU", "hidden", "relu"),
               product("relu", "logit", 1), {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": "logit", "top": "loss"}]
        old = form(net, 8, old=True)
        data, embedding = old["layers"][:2]
        # The files of this test are raw, with 13 dense features.
        old["data"] = {**{key: data[key] for key in ("source", "eval_source", "format")}, "label_dim": 1,
                       "max_feature_num_per_sample": SLOTS, "slot_num": SLOTS}
        old["layers"] = old["layers"][1:]
        del embedding["bottom"]
        embedding["type"] = "SparseEmbeddingHash"
        embedding["sparse_embedding_hparam"]["slot_num"] = SLOTS
        new = form([layer("Reshape", "embedding", "flat"), *net[1:-1], loss("logit")], 8, old=True)
        evals = self.evaluations(old, "--set", "layers.data.dense.dense_dim=13")
        self.assertEqual(len(evals), 3)
        self.assertGreater(evals[2]["auc"], 0.6)
        self.assertEqual([e["loss"] for e in evals], [e["loss"] for e in self.evaluations(new)])


if __name__ == "__main__":
    unittest.main()
