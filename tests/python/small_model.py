"""A small DLRM on generated samples, in a folder of its own."""
import copy
import json
import os

import numpy as np

DENSE, TABLES = 2, [40, 5, 300]
CONFIG = {
    "solver": {"seed": 7, "lr_policy": "fixed", "display": 10, "max_iter": 60, "gpu": [0], "batchsize": 32,
               "batchsize_eval": 64, "eval_batches": 10, "eval_interval": 30, "snapshot": 1000000,
               "snapshot_prefix": "./snap_", "threads": 2},
    "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.1}},
    "layers": [
        {"name": "data", "type": "Data", "format": "Raw", "source": "train.bin", "eval_source": "eval.bin",
         "check": "None", "num_samples": 500, "eval_num_samples": 333, "label": {"top": "label", "label_dim": 1},
         "dense": {"top": "dense", "dense_dim": DENSE, "aligned": "Auto"},
         "sparse": [{"top": "keys", "type": "LocalizedSlot", "slot_num": 3, "max_feature_num_per_sample": 3}]},
        {"name": "emb", "type": "LocalizedSlotSparseEmbeddingOneHot", "bottom": "keys", "top": "emb",
         "sparse_embedding_hparam": {"slot_size_array": TABLES, "embedding_vec_size": 4, "combiner": 0}},
        {"name": "b1", "type": "InnerProduct", "bottom": "dense", "top": "b1z", "fc_param": {"num_output": 4}},
        {"name": "r1", "type": "ReLU", "bottom": "b1z", "top": "b1"},
        {"name": "inter", "type": "Interaction", "bottom": ["b1", "emb"], "top": "inter"},
        {"name": "t1", "type": "InnerProduct", "bottom": "inter", "top": "z", "fc_param": {"num_output": 1}},
        {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]}


def config(**solver):
    changed = copy.deepcopy(CONFIG)
    changed["solver"].update(solver)
    return changed


def samples(n, seed):
    """(label, dense as in files, keys)"""
    random = np.random.default_rng(seed)
    keys = np.stack([random.integers(0, rows, n) for rows in TABLES], 1)
    dense = random.integers(0, 50, (n, DENSE))
    label = ((keys[:, 0] % 2 == 0) == (random.random(n) < 0.8)).astype(np.int32)
    return label, dense, keys


def features(dense):
    return np.log1p(dense.astype(np.float64)).astype(np.float32)


def write_files(folder):
    for name, n, seed in (("train", 500, 1), ("eval", 333, 2)):
        label, dense, keys = samples(n, seed)
        np.concatenate([label[:, None], dense, keys], 1).astype("<i4").tofile(os.path.join(folder, name + ".bin"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
