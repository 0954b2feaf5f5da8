"""Click data for the other scripts: users who like one of four kinds of items, and items that are of one kind."""
import numpy as np

USERS, ITEMS, KINDS, V = 400, 60, 4, 8


def draw(n, seed):
    """(label float [n], dense float [n, 1], keys int [n, 2]: user, item)"""
    random = np.random.default_rng(seed)
    user, item = random.integers(0, USERS, n), random.integers(0, ITEMS, n)
    likes = user % KINDS == item % KINDS
    label = random.random(n) < np.where(likes, 0.8, 0.1)
    return label.astype(np.float32), random.random((n, 1), np.float32), np.stack([user, item], 1)


def config(**solver):
    return {
        "solver": {"lr_policy": "fixed", "display": 50, "max_iter": 200, "gpu": [0], "batchsize": 512, "seed": 1,
                   "snapshot": 0, "snapshot_prefix": "./", **solver},
        "optimizer": {"type": "Adam", "adam_hparam": {"learning_rate": 0.05, "beta1": 0.9, "beta2": 0.999,
                                                      "epsilon": 1e-8}},
        "layers": [
            {"name": "data", "type": "Data", "format": "Raw", "source": "train.bin", "eval_source": "eval.bin",
             "check": "None", "num_samples": 20000, "eval_num_samples": 5000, "float_label_dense": True,
             "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 1},
             "sparse": [{"top": "keys", "type": "DistributedSlot", "slot_num": 2, "max_feature_num_per_sample": 2}]},
            {"name": "emb", "type": "LocalizedSlotSparseEmbeddingOneHot", "bottom": "keys", "top": "emb",
             "sparse_embedding_hparam": {"embedding_vec_size": V, "slot_size_array": [USERS, ITEMS]}},
            {"name": "bottom", "type": "InnerProduct", "bottom": "dense", "top": "bottom",
             "fc_param": {"num_output": V}},
            {"name": "dots", "type": "Interaction", "bottom": ["bottom", "emb"], "top": "dots"},
            {"name": "top", "type": "InnerProduct", "bottom": "dots", "top": "logit", "fc_param": {"num_output": 1}},
            {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["logit", "label"], "top": "loss"}]}
