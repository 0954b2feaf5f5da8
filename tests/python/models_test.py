"""The first configs of models made of small layers: scores of a trained one against the model's formula, in double."""
import unittest

import numpy as np

import hugectr_lite as hl

TABLES, DENSE, SAMPLES = [50, 7, 9], 3, 5000  # so few samples: hidden layers of 64 and 32


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Weights:
    """Of a trainer, in double."""

    def __init__(self, weights):
        self.of = {name: np.asarray(array, dtype=np.float64) for name, array in weights.items()}
        self.read = set()

    def __call__(self, name):
        self.read.add(name)
        return self.of[name]

    def inputs(self, dense, keys):
        return np.concatenate([self(f"embedding.table_{t}")[keys[:, t]] for t in range(len(TABLES))] + [dense], axis=1)

    def fc(self, x, name, bias=True):
        return x @ self(name + ".weight") + (self(name + ".bias") if bias else 0)

    def hidden(self, x, name):
        return relu(self.fc(relu(self.fc(x, name + ".0")), name + ".1"))

    def mlp(self, x, name):
        return self.fc(relu(self.fc(x, name + ".0")), name + ".1")

    def mixture(self, x, experts, name):
        gates = softmax(self.fc(x, name + "_gate_fc"))
        return sum(gates[:, [e]] * expert for e, expert in enumerate(experts))


def gdcn(w, x0):
    x = x0
    for layer in range(3):
        x = x0 * w.fc(x, f"cross{layer}_fc") * sigmoid(w.fc(x, f"cross{layer}_gate_fc", bias=False)) + x
    return w.fc(np.concatenate([x, w.hidden(x0, "mlp")], axis=1), "logit")


def finalnet(w, x):
    for layer in range(2):
        linear, factor = np.split(w.fc(x, f"fc{layer}"), 2, axis=1)
        x = relu(np.concatenate([linear, linear * factor], axis=1))
    return w.fc(x, "logit")


def finalmlp(w, x):
    sides = {}
    for side in "xy":
        gate = 2 * sigmoid(w.mlp(w(side + "_context.weight"), side + "_gate_fc"))
        sides[side] = w.hidden(x * gate, side + "_mlp")
    heads = [np.split(sides[side], 4, axis=1) for side in "xy"]
    products = sum(np.einsum("bi,ij,bj->b", heads[0][h], w(f"x{h}_fc.weight"), heads[1][h]) for h in range(4))
    return w.fc(sides["x"], "x_logit") + w.fc(sides["y"], "y_logit") + products[:, None]


def masknet(w, x):
    blocks = []
    for i in range(3):
        z = w.fc(w.mlp(x, f"mask{i}") * x, f"block_fc{i}", bias=False)
        z = (z - z.mean(axis=1, keepdims=True)) / np.sqrt(z.var(axis=1, keepdims=True) + 1e-5)
        blocks.append(relu(z * w(f"block_norm{i}.gamma") + w(f"block_norm{i}.beta")))
    return w.fc(w.hidden(np.concatenate(blocks, axis=1), "mlp"), "logit")


def mmoe(w, x):
    experts = [w.hidden(x, f"expert{e}_mlp") for e in range(4)]
    return np.concatenate([w.mlp(w.mixture(x, experts, f"task{t}"), f"logit{t}") for t in range(2)], axis=1)


def ple(w, x):
    tasks, shared = [x, x], x
    for level in ("level0", "level1"):
        def expert(of, name):
            return relu(w.fc(of, f"{level}_{name}_fc"))
        common = [expert(shared, f"shared{e}") for e in range(2)]
        tasks = [w.mixture(of, [expert(of, f"task{t}_own")] + common, f"{level}_task{t}") for t, of in enumerate(tasks)]
        if level == "level0":
            shared = w.mixture(shared, common, "level0_shared")
    return np.concatenate([w.mlp(of, f"logit{t}") for t, of in enumerate(tasks)], axis=1)


class Models(unittest.TestCase):
    def test_scores_are_those_of_the_formula(self):
        rng = np.random.default_rng(1)
        dense = rng.normal(size=(96, DENSE)).astype(np.float32)
        keys = np.stack([rng.integers(rows, size=96) for rows in TABLES], axis=1)
        for model in (gdcn, finalnet, finalmlp, masknet, mmoe, ple):
            name, tasks = model.__name__, 2 if model in (mmoe, ple) else 1
            with self.subTest(name):
                config = getattr(hl.models, name)(dense=DENSE, tables=TABLES, samples=SAMPLES, evaluates=False)
                trainer = hl.Trainer(config, arrays=True, threads=1,
                                     set={"optimizer.adam_hparam.learning_rate": 0.02, "solver.batchsize": 96})
                label = np.stack([keys[:, 1] > 3, dense[:, 0] > 0], axis=1).astype(np.float32)[:, :tasks]
                losses = []
                for _ in range(30):
                    trainer.step(label, dense, keys)
                    losses.append(trainer.batch_loss)
                self.assertLess(losses[-1], 0.8 * losses[0])
                w = Weights(trainer.weights)
                want = sigmoid(model(w, w.inputs(dense.astype(np.float64), keys)))
                np.testing.assert_allclose(trainer.predict(dense, keys).reshape(want.shape), want, rtol=0, atol=2e-5)
                self.assertEqual(w.read, set(w.of))  # no weight that the formula lacks

    def test_tasks_are_evaluated_on_arrays(self):
        config = hl.models.mmoe(dense=1, tables=[3], samples=50, evaluates=False)
        trainer = hl.Trainer(config, arrays=True, threads=1)
        draw = np.random.default_rng(5)
        dense, keys = draw.normal(size=(50, 1)).astype(np.float32), draw.integers(0, 3, (50, 1))
        label = draw.integers(0, 2, (50, 2)).astype(np.float32)
        label[::7, 1] = -1  # absent
        weight = draw.uniform(0.5, 2, 50).astype(np.float32)
        scores = trainer.predict(dense, keys).astype(np.float64)
        for sample_weight in (None, weight):
            found = trainer.evaluate(label, dense, keys, sample_weight=sample_weight)
            w = np.ones(50) if sample_weight is None else weight
            losses = []
            for task, of in enumerate(found["tasks"]):
                there = label[:, task] >= 0
                y, p = label[there, task], scores[there, task]
                losses.append(-(w[there] * np.where(y == 1, np.log(p), np.log(1 - p))).sum())
                self.assertAlmostEqual(of["loss"], losses[-1] / w[there].sum(), places=5)
            self.assertAlmostEqual(found["loss"], sum(losses) / (2 * w.sum()), places=5)
            self.assertAlmostEqual(found["auc"], np.mean([of["auc"] for of in found["tasks"]]), places=6)
            self.assertEqual(found["samples"], 50)
        self.assertIn("tasks", trainer.fit(label, dense, keys, eval_set=(label, dense, keys), epochs=1)[-1])
        with self.assertRaisesRegex(hl.DataError, r"label: expected the shape \[50, 2\] of the scores, found \[50\]"):
            trainer.evaluate(label[:, 0], dense, keys)

    def test_a_model_of_tasks_needs_several_labels_and_others_one(self):
        sizes = {"dense": 1, "tables": [3], "samples": 9}
        self.assertEqual(hl.models.ple(labels=3, **sizes)["layers"][-1]["target_weight"], [1, 1, 1])
        with self.assertRaisesRegex(hl.ConfigError, "expected data with several labels for mmoe, found 1"):
            hl.models.mmoe(labels=1, **sizes)
        with self.assertRaisesRegex(hl.ConfigError, "expected data with one label for gdcn, found 2"):
            hl.models.gdcn(labels=2, **sizes)


if __name__ == "__main__":
    unittest.main()
