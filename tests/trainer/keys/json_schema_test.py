"""An editor's validator and the parser agree on configs: train --keys --json-schema, by the package jsonschema."""
import copy
import glob
import json
import os
import re
import subprocess
import sys
import unittest

import jsonschema

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SCHEMA = json.loads(subprocess.check_output([sys.argv.pop(1), "--keys", "--json-schema"]))
FILES = [file for pattern in ("configs/**/*.json", "tests/data/golden/*/config.json", "tests/fuzz/configs/*.json")
         for file in glob.glob(os.path.join(ROOT, pattern), recursive=True) if not file.endswith("schema.json")]
# What is wrong with configs/demo.json, and where.
BROKEN = [("solver", "displey", 3), ("solver", "batchsize", 0), ("solver", "batchsize", "many"), ("solver", "gpu", 0),
          ("solver", "eval_metrics", ["F1"]), ("solver", "vvgpu", [0]), ("solver", "early_stop", {"factor": 0.1}),
          ("solver", "lr_plateau", {"factor": 1}), ("optimizer", "type", "RMSProp"), ("optimizer", "type", "Ftrl"), ("optimizer", "type", "RowWiseAdaGrad"), ("optimizer", "type", "RowWiseAdam"),
          ("solver", "device", "tpu"), ("optimizer", "update_type", "Lazy"), ("layers/0", "type", "ReLU"),
          ("layers/0/label", "label_dim", 65),
          ("layers/1", "sparse_embedding_hparam", {}), ("layers/2", "type", "InnerProdukt"),
          ("layers/2", "fc_param", {}), ("layers/2", "axis", 1)]


def load(file):
    with open(file, encoding="utf-8") as text:
        return json.loads(re.sub(r"^\s*//.*$", "", text.read(), flags=re.MULTILINE))


def errors(config):
    return list(jsonschema.Draft7Validator(SCHEMA).iter_errors(config))


class JsonSchema(unittest.TestCase):
    def test_every_config_fits(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)
        self.assertGreater(len(FILES), 35)
        for file in FILES:
            self.assertEqual([error.message for error in errors(load(file))], [], file)

    def test_broken_configs_are_refused(self):
        demo = load(os.path.join(ROOT, "configs", "demo.json"))
        for place, key, value in BROKEN:
            config = copy.deepcopy(demo)
            block = config
            for step in place.split("/"):
                block = block[int(step) if step.isdigit() else step]
            block[key] = value
            self.assertTrue(errors(config), (place, key, value))
        del demo["solver"]["batchsize"]
        self.assertTrue(errors(demo))

    def test_unknown_keys_pass_if_the_config_says_so(self):
        demo = load(os.path.join(ROOT, "configs", "demo.json"))
        demo["strict"], demo["solver"]["displey"], demo["layers"][2]["note"] = False, 3, "x"
        self.assertEqual(errors(demo), [])
        demo["solver"]["batchsize"] = 0
        self.assertTrue(errors(demo))

    def test_it_says_what_an_editor_shows(self):
        display = SCHEMA["properties"]["solver"]["properties"]["display"]
        self.assertIn("0 disables them", display["description"])
        self.assertEqual(SCHEMA["properties"]["solver"]["properties"]["cuda_graph"]["default"], True)


unittest.main()
