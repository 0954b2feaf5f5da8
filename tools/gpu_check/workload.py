"""The DLRM of MLPerf as a training config over the file that criteo_synth writes."""


def config(batch, iterations, bottom, top, width):
    """bottom, top: widths of the layers; the last one of `bottom` is the tables' `width`."""
    def connected(name, below, outputs):
        return {"name": name, "type": "FusedInnerProduct", "position": "Isolated", "bottom": below, "top": name,
                "fc_param": {"num_output": outputs}}

    def chain(prefix, below, widths):
        names = [f"{prefix}{i + 1}" for i in range(len(widths))]
        return [connected(name, under, n) for name, under, n in zip(names, [below] + names, widths)]

    lower, upper = chain("b", "dense", bottom), chain("t", "inter", top)
    evaluations = max(1, iterations // 6)
    return {
        "solver": {"seed": 7, "lr_policy": "fixed", "display": evaluations, "max_iter": iterations, "batchsize": batch,
                   "gpu": [0], "snapshot": 1000000000, "snapshot_prefix": "./b_", "cuda_graph": True,
                   "eval_interval": iterations // 2, "eval_batches": evaluations, "batchsize_eval": batch},
        "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 1.0}},
        "layers": [
            {"name": "data", "type": "Data", "format": "RawAsync", "source": "c.train.bin",
             "eval_source": "c.train.bin", "check": "None", "cache_eval_data": evaluations,
             "slot_size_array": "c.manifest.json", "label": {"top": "label", "label_dim": 1},
             "dense": {"top": "dense", "dense_dim": 13, "aligned": "Auto"},
             "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 26, "max_nnz": 1,
                         "slot_num": 26}],
             "async_param": {"num_threads": 8, "num_batches_per_thread": 4, "io_block_size": 2097152, "io_depth": 8,
                             "io_alignment": 512, "shuffle": False}},
            {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
             "sparse_embedding_hparam": {"slot_size_array": "c.manifest.json", "embedding_vec_size": width,
                                         "combiner": 0}},
            *lower,
            {"name": "inter", "type": "Interaction", "bottom": [lower[-1]["name"], "emb"], "top": "inter"},
            *upper,
            {"name": "z", "type": "InnerProduct", "bottom": upper[-1]["name"], "top": "z",
             "fc_param": {"num_output": 1}},
            {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]}
