#!/usr/bin/env python3
"""hl.models.din, dien and bst: layers that fit together, sizes that histories.json says."""
import json
import os
import subprocess
import tempfile
import unittest

import hugectr_lite as hl

FACTS = {"format": "Parquet", "train": {"source": "train.parquet", "samples": 60000, "label_mean": 0.25},
         "val": {"source": "val.parquet", "samples": 5000}, "test": {"source": "test.parquet", "samples": 5000}, "max_len": 16,
         "columns": {"labels": ["label"], "cats": ["user", "item", "cate", "item_history", "cate_history"]},
         "rows": {"user": 300, "item": 500, "cate": 20}}


def names(value):
    return [value] if isinstance(value, str) else value


class HistoryModelsTest(unittest.TestCase):
    def of_type(self, config, kind):
        return [layer for layer in config["layers"] if layer["type"] == kind]

    def test_every_tensor_is_made_once_before_it_is_read(self):
        for build, options in ((hl.models.dien, {}), (hl.models.din, {}), (hl.models.din, {"softmax": False, "attention": (), "dropout": 0}),
                               (hl.models.bst, {}), (hl.models.bst, {"blocks": 3, "hidden": (), "heads": 1})):
            with self.subTest(build.__name__, **options):
                config = build(FACTS, **options)
                data = config["layers"][0]
                self.assertEqual([each["top"] for each in data["sparse"]], ["context", "target", "history"])
                made = [data["label"]["top"], data["dense"]["top"], data["sparse"][2]["lengths"], *(s["top"] for s in data["sparse"])]
                read = set()
                for layer in config["layers"][1:]:
                    read |= set(names(layer["bottom"]))
                    self.assertLessEqual(set(names(layer["bottom"])), set(made), layer)
                    made += names(layer["top"])
                self.assertEqual(len(set(made)), len(made))
                self.assertEqual(set(made) - read, {"dense", "loss"})
                json.dumps(config)

    def test_a_target_and_its_history_share_tables(self):
        for build in (hl.models.din, hl.models.dien, hl.models.bst):
            config = build(FACTS, width=8)
            embedding, = self.of_type(config, "HybridSparseEmbedding")
            hparam = embedding["sparse_embedding_hparam"]
            self.assertEqual((embedding["bottom"], hparam["combiner"], hparam["slot_tables"], hparam["embedding_vec_size"]),
                             (["context", "target", "history"], ["sum", "concat", "concat"], [0, 1, 2, 1, 2], 8))
            data = config["layers"][0]
            self.assertEqual(data["slot_size_array"], [300, 500, 20, 500, 20])
            self.assertEqual(data["sparse"][2], {"top": "history", "slot_num": 2, "max_len": 16, "lengths": "history_len"})
            self.assertEqual((config["optimizer"]["update_type"], hparam["regularizer"]), ("Global", "L2"))
            self.assertEqual(config["layers"][-1]["base_score"], 0.25)
            many = build({**FACTS, "rows": {"user": 10**8, "item": 500, "cate": 20}})
            self.assertEqual(many["optimizer"]["update_type"], "Local")
            self.assertNotIn("regularizer", self.of_type(many, "HybridSparseEmbedding")[0]["sparse_embedding_hparam"])

    def test_columns_may_come_in_any_order(self):
        cats = ["cate", "cate_history", "item_history", "day", "hour", "item"]
        config = hl.models.bst({**FACTS, "columns": {"labels": "label", "cats": cats, "conts": ["age"]},
                                "rows": {"item": 500, "cate": 20, "day": 7, "hour": 24}}, heads=2)
        self.assertEqual([(each["top"], each["slot_num"]) for each in config["layers"][0]["sparse"]],
                         [("target", 1), ("history", 2), ("context", 2), ("target2", 1)])
        embedding, = self.of_type(config, "HybridSparseEmbedding")
        self.assertEqual((embedding["bottom"], embedding["sparse_embedding_hparam"]["slot_tables"]),
                         (["context", "target", "target2", "history"], [0, 1, 2, 3, 2, 3]))
        self.assertEqual(self.of_type(config, "Concat")[0]["bottom"], ["target_row", "target2_row"])
        self.assertEqual(self.of_type(config, "Concat")[1]["bottom"], ["context_row", "last", "dense"])

    def test_lengths_are_those_of_the_data(self):
        config = hl.models.din(FACTS, width=8)
        self.assertEqual([layer["scale_param"]["factor"] for layer in self.of_type(config, "Scale")], [16])
        self.assertEqual([layer["max_sequence_len_to"] for layer in self.of_type(config, "SequenceMask")], [16])
        self.assertFalse(self.of_type(config, "InnerProduct")[2]["fc_param"]["use_bias"])
        plain = hl.models.din(FACTS, softmax=False)
        self.assertEqual(self.of_type(plain, "Softmax"), [])
        self.assertNotIn("use_bias", self.of_type(plain, "InnerProduct")[2]["fc_param"])
        mask = self.of_type(hl.models.bst(FACTS), "SequenceMask")[0]
        self.assertEqual((mask["max_sequence_len_from"], mask["max_sequence_len_to"]), (17, 17))  # the target behind them
        for build, sizes, message in (
                (hl.models.bst, {"heads": 3}, "bst: expected heads that divide 32, the width of an event, found 3"),
                (hl.models.bst, {"softmax": False}, "softmax: unknown key"),
                (hl.models.dien, {"width": 0}, "dien:1: width: expected an integer >= 1, found 0")):
            with self.assertRaisesRegex(hl.ConfigError, message):
                build(FACTS, **sizes)

    def test_dien_weighs_states_and_holds_back_updates(self):
        config = hl.models.dien(FACTS, width=6, hidden=(32,))
        self.assertEqual([layer["type"] for layer in config["layers"][4:]],
                         ["GRU", "InnerProduct", "Reshape", "MatrixMultiply", "Reshape", "SequenceMask", "Reshape", "Softmax", "GRU",
                          "SequenceLast", "Reshape", "Concat", "InnerProduct", "PReLU_Dice", "Dropout", "InnerProduct",
                          "BinaryCrossEntropyLoss"])
        self.assertEqual([(layer["bottom"], layer["gru_param"]["num_output"]) for layer in self.of_type(config, "GRU")],
                         [(["history_vectors", "history_len"], 12), (["states", "history_len", "weights"], 12)])

    def test_facts_come_from_a_folder_or_a_dict(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "histories.json"), "w", encoding="utf-8") as file:
                json.dump(FACTS, file)
            for prepared in (folder, os.path.join(folder, "histories.json")):
                data = hl.models.din(prepared)["layers"][0]
                self.assertEqual([data[key] for key in ("source", "eval_source", "test_source")],
                                 [os.path.join(folder, f"{part}.parquet") for part in ("train", "val", "test")])
        self.assertEqual(hl.models.din(FACTS)["layers"][0]["source"], "train.parquet")
        without = {key: value for key, value in FACTS.items() if key != "rows"}
        for facts, message in (
                (without, 'prepared:1: missing key "rows"'),
                ({**FACTS, "rows": {"user": 3, "item": 5}}, 'and lists of their values with the names COLUMN_history, found "cate"'),
                ({**FACTS, "columns": {"labels": "label", "cats": ["user", "item", "clicks"]}}, 'COLUMN_history, found "clicks"'),
                ({**FACTS, "columns": {"labels": "label", "cats": ["item_history", "user", "item", "cate_history", "cate"]}},
                 'expected lists side by side, found "item" between them'),
                ({**FACTS, "columns": {"labels": "label", "cats": ["user", "item"]}}, "expected data with one history, found none")):
            with self.subTest(message), self.assertRaisesRegex(hl.ConfigError, message):
                hl.models.din(facts)

    def test_norm_files_have_no_columns_by_name(self):
        facts = {**FACTS, "format": "Norm", "check": "Sum", "train": {"source": "train.txt", "samples": 2_000_000}}
        del facts["val"]
        config = hl.models.din(facts)
        self.assertNotIn("columns", config["layers"][0])
        self.assertEqual(config["layers"][0]["check"], "Sum")
        self.assertEqual((config["solver"]["batchsize"], config["solver"]["num_epochs"]), (4096, 2))
        self.assertNotIn("early_stop", config["solver"])

    @unittest.skipUnless("HLITE_CRITEO_SYNTH" in os.environ, "no criteo_synth")
    def test_they_learn_what_a_planted_history_says(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "s")
            subprocess.run([os.environ["HLITE_CRITEO_SYNTH"], "--history", "5", "--train", "100000", "--test", "20000",
                            "--cards", "20,40,5", "--out", prefix], check=True, capture_output=True)
            with open(prefix + ".histories.json", encoding="utf-8") as file:
                best = json.load(file)["val"]
            for build in (hl.models.din, hl.models.bst):
                trainer = hl.Trainer(build(prefix + ".histories.json"), set={"solver.num_epochs": 3, "solver.threads": 1})
                auc = max(event["auc"] for event in trainer.train() if event["event"] == "eval")
                with self.subTest(build.__name__):
                    self.assertGreater(auc, best["bayes_auc"] - 0.02)   # without the history: 0.12 below
                    self.assertLess(auc, best["bayes_auc"] + 0.001)    # nothing knows more


if __name__ == "__main__":
    unittest.main()
