"""First configs of models that read histories: DIN (Zhou et al., 2018) and BST (Chen et al., 2019).

    config = hl.models.din("work/ml")                      # what docs/gallery/histories.py or criteo_synth --history wrote
    config = hl.models.bst("work/ml", heads=2, hidden=(128, 64))
"""
import json
import os


class _Layers(list):
    def add(self, kind, bottom, top, **keys):
        self.append({"type": kind, "bottom": bottom, "top": top, **keys})
        return top

    def fc(self, bottom, top, width, **keys):
        return self.add("InnerProduct", bottom, top, fc_param={"num_output": width, **keys})

    def reshape(self, bottom, top, width, **keys):
        return self.add("Reshape", bottom, top, leading_dim=width, **keys)

    def dice(self, bottom, top):
        return self.add("PReLU_Dice", bottom, top, prelu_dice_param={"alpha": 0.2, "epsilon": 1e-8})


class _Facts:
    """What histories.json says, and the sizes that follow from it."""

    def __init__(self, model, prepared):
        self.folder, facts = "", prepared
        if not isinstance(prepared, dict):
            path = os.fspath(prepared)
            if os.path.isdir(path):
                path = os.path.join(path, "histories.json")
            self.folder = os.path.dirname(path)
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
        for key in ("format", "train", "max_len", "columns", "rows"):
            if key not in facts:
                raise TypeError(f"{model}: expected {key} of histories.json, found {', '.join(facts)}")
        self.facts, self.samples, self.length = facts, facts["train"]["samples"], facts["max_len"]
        cats = facts["columns"]["cats"]
        self.user, self.items = cats[0], cats[1:1 + (len(cats) - 1) // 2]
        self.rows = facts["rows"]
        # The latter as of other first configs: so many iterations an epoch that it is worth an evaluation.
        self.batch = max(128, min(8192, 1 << max(0, (self.samples // 250).bit_length() - 1)))
        # A penalty moves every row in every iteration, which is cheap where most rows are in a batch; where rows are seen
        # often, less of it will do.
        keys, rows = 1 + len(self.items) * (1 + self.length), sum(self.rows.values())
        self.penalty = 0
        if rows <= max(200_000, 16 * self.batch * keys):
            often = self.samples * keys >= 500 * rows
            self.penalty = 2000 / self.samples if self.samples >= 100_000 else 0.005 if often else 0.02

    def solver(self):
        solver = {"seed": 1, "display": 100, "batchsize": self.batch, "num_epochs": 5}
        if "val" in self.facts:
            noise = float(f"{max(1e-5, 0.005 / max(1, self.facts['val']['samples']) ** 0.5):.1g}")
            solver.update(num_epochs=50, eval_every_epochs=1, eval_metrics=["AUC", "AverageLoss"],
                          lr_plateau={"monitor": "AverageLoss", "factor": 0.1, "patience": 2, "min_delta": noise},
                          early_stop={"monitor": "AverageLoss", "patience": 4, "min_delta": noise})
        return solver

    def optimizer(self, rate):
        return {"type": "Adam", "update_type": "Global" if self.penalty else "Local", "adam_hparam": {"learning_rate": rate}}

    def data(self):
        n = len(self.items)
        data = {"name": "data", "type": "Data", "format": self.facts["format"]}
        for part, key in (("train", "source"), ("val", "eval_source"), ("test", "test_source")):
            if part in self.facts:
                data[key] = os.path.join(self.folder, self.facts[part]["source"])
        if "check" in self.facts:
            data["check"] = self.facts["check"]
        data["label"] = {"top": "label", "label_dim": 1}
        data["dense"] = {"top": "dense", "dense_dim": 0}
        data["sparse"] = [{"top": "user", "slot_num": 1, "max_nnz": 1}, {"top": "target", "slot_num": n, "max_nnz": 1},
                          {"top": "history", "slot_num": n, "max_len": self.length, "lengths": "history_len"}]
        if self.facts["format"] == "Parquet":
            data["columns"] = self.facts["columns"]
        return data

    def embeddings(self, layers, width):
        """user_row [B,width], target_row [B,items*width], history [B,T,items*width]: one table for a target and its history."""
        n = len(self.items)
        rows = {"embedding_vec_size": width, "init_stddev": 0.05}
        if self.penalty:
            rows.update({"regularizer": "L2", "lambda": float(f"{self.penalty:.2g}")})
        layers.add("HybridSparseEmbedding", "user", "user_vector", name="user_embedding",
                   sparse_embedding_hparam={**rows, "combiner": "sum", "slot_size_array": [self.rows[self.user]]})
        sizes = [self.rows[name] for name in self.items]
        layers.add("HybridSparseEmbedding", ["target", "history"], ["target_vectors", "history_vectors"], name="item_embedding",
                   sparse_embedding_hparam={**rows, "combiner": "concat", "slot_size_array": sizes + sizes,
                                            "slot_tables": [*range(n), *range(n)]})
        layers.reshape("user_vector", "user_row", width)
        layers.reshape("target_vectors", "target_row", n * width)

    def config(self, layers, rate):
        loss = {"type": "BinaryCrossEntropyLoss", "bottom": ["logit", "label"], "top": "loss"}
        mean = self.facts["train"].get("label_mean", 0)
        if 0 < mean < 1:
            loss["base_score"] = float(f"{mean:.4g}")
        return {"solver": self.solver(), "optimizer": self.optimizer(rate), "layers": [self.data(), *layers, loss]}


def _head(layers, bottom, hidden, dropout, dice):
    for i, width in enumerate(hidden):
        layers.fc(bottom, f"fc{i}", width)
        bottom = layers.dice(f"fc{i}", f"dice{i}") if dice else layers.add("ReLU", f"fc{i}", f"relu{i}")
        if dropout > 0:
            bottom = layers.add("Dropout", bottom, f"dropout{i}", rate=dropout)
    layers.fc(bottom, "logit", 1)


def din(prepared, *, width=16, attention=(80, 40), softmax=True, hidden=(200, 80), dropout=0.1, learning_rate=0.001):
    """The first config of DIN, a dict: an MLP of [q, h, q - h, q * h] weighs each event h of the history by the target q.

    prepared: histories.json, or the folder of it, with which paths in the config then begin; or what it holds, as a dict.
    width: of a row of a table; attention, hidden: widths of the layers, each with Dice; softmax: weights of a history sum up
    to 1, otherwise they are what the MLP says; dropout: of the hidden layers. Raises TypeError, OSError."""
    facts, layers = _Facts("din", prepared), _Layers()
    t, w = facts.length, width * len(facts.items)
    facts.embeddings(layers, width)
    # One row for each event of each sample.
    layers.add("Scale", "target_row", "q", scale_param={"axis": 1, "factor": t})
    layers.reshape("history_vectors", "h", w)
    layers.add("Sub", ["q", "h"], "difference")
    layers.add("ElementwiseMultiply", ["q", "h"], "product")
    below = layers.add("Concat", ["q", "h", "difference", "product"], "attention")
    for i, units in enumerate(attention):
        layers.fc(below, f"attention_fc{i}", units)
        below = layers.dice(f"attention_fc{i}", f"attention_dice{i}")
    layers.fc(below, "score", 1, use_bias=not softmax)  # a softmax does not see what is added to all
    layers.reshape("score", "scores", t)
    layers.add("SequenceMask", ["history_len", "history_len"], "mask4", max_sequence_len_from=1, max_sequence_len_to=t)
    layers.reshape("mask4", "mask", t)
    layers.add("Softmax" if softmax else "ElementwiseMultiply", ["scores", "mask"], "weights")
    layers.reshape("weights", "weights3", t, time_step=1)
    layers.add("MatrixMultiply", ["weights3", "history_vectors"], "interest3")
    layers.reshape("interest3", "interest", w)
    layers.add("ReduceMean", ["history_vectors", "history_len"], "average3", axis=1)
    layers.reshape("average3", "average", w)
    layers.add("Concat", ["user_row", "average", "interest", "target_row"], "features")
    _head(layers, "features", hidden, dropout, dice=True)
    return facts.config(layers, learning_rate)


def bst(prepared, *, width=16, heads=4, blocks=1, hidden=(256, 128, 64), dropout=0.1, learning_rate=0.001):
    """The first config of BST, a dict: transformer blocks over the history with the target behind it, whose state counts.

    prepared, width, hidden (with ReLU), dropout: as of din(). heads: of the attention, a divisor of width times the number of
    item columns. Raises TypeError, ValueError, OSError."""
    facts, layers = _Facts("bst", prepared), _Layers()
    t, w = facts.length + 1, width * len(facts.items)
    if w % heads != 0:
        raise ValueError(f"bst: expected heads that divide {w}, the width of an event, found {heads}")
    facts.embeddings(layers, width)
    layers.reshape("target_row", "target3", w, time_step=1)
    layers.add("SequenceConcat", ["history_vectors", "history_len", "target3"], ["sequence", "sequence_len"])
    state = layers.add("PositionEmbedding", ["sequence", "sequence_len"], "positioned", **{"from": "end"})
    layers.add("SequenceMask", ["sequence_len", "sequence_len"], "mask4", max_sequence_len_from=t, max_sequence_len_to=t)
    for b in (f"block{i}_" for i in range(blocks)):
        layers.fc(state, b + "query", w)
        layers.fc(state, b + "key", w, use_bias=False)  # of which a softmax would see nothing
        layers.fc(state, b + "value", w)
        layers.add("MultiHeadAttention", [b + "query", b + "key", b + "value", "mask4"], b + "attention", num_attention_heads=heads)
        layers.fc(b + "attention", b + "out", w)
        layers.add("Add", [b + "out", state], b + "sum1")
        layers.add("LayerNorm", b + "sum1", b + "norm1", ln_param={"eps": 1e-5})
        layers.fc(b + "norm1", b + "wide", 2 * w)
        layers.add("ReLU", b + "wide", b + "relu")
        layers.fc(b + "relu", b + "narrow", w)
        layers.add("Add", [b + "narrow", b + "norm1"], b + "sum2")
        state = layers.add("LayerNorm", b + "sum2", b + "norm2", ln_param={"eps": 1e-5})
    layers.add("SequenceLast", [state, "sequence_len"], "last3", count=1)
    layers.reshape("last3", "last", w)
    layers.add("Concat", ["user_row", "last"], "features")
    _head(layers, "features", hidden, dropout, dice=False)
    return facts.config(layers, learning_rate)
