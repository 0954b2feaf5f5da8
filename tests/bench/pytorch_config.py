#!/usr/bin/env python3
"""Trains a config of ours in plain PyTorch, layer by layer as it is spelled there, and prints one JSON object: AUC and
log loss on test_source with the weights of the best epoch.

For configs like those in configs/accuracy: one-hot tables with normal initial values, Adam on everything, penalties on
tables, clipping, a learning rate that is cut when the validation metric stops rising, early stop.
"""
import argparse
import copy
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as fn


def read_split(path, dense, slots):
    """float labels [n], float dense [n, dense], keys [n, slots] of a raw file with float_label_dense."""
    records = np.fromfile(path, dtype=np.uint32).reshape(-1, 1 + dense + slots)
    floats = records.view(np.float32)
    return (torch.from_numpy(floats[:, 0].copy()), torch.from_numpy(floats[:, 1:1 + dense].copy()),
            torch.from_numpy(records[:, 1 + dense:].astype(np.int64)))


def auc(scores, labels):
    """Exact, ties counting half."""
    order = np.argsort(scores, kind="stable")
    scores, positive = scores[order], labels[order] > 0.5
    edges = np.flatnonzero(np.diff(scores)) + 1
    begin, end = np.r_[0, edges], np.r_[edges, len(scores)]
    rank = np.repeat((begin + end + 1) / 2, end - begin)
    p = positive.sum()
    return (rank[positive].sum() - p * (p + 1) / 2) / (p * (len(scores) - p))


class Cross(nn.Module):
    """x' = (x w) x0 + b + x"""

    def __init__(self, width, layers):
        super().__init__()
        self.weights = nn.ModuleList(nn.Linear(width, 1, bias=False) for _ in range(layers))
        self.biases = nn.ParameterList(torch.zeros(width) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for weight, bias in zip(self.weights, self.biases):
            x = weight(x) * x0 + bias + x
        return x


class Spelled(nn.Module):
    def __init__(self, layers, dense, rows):
        super().__init__()
        self.layers, self.parts = layers, nn.ModuleDict()
        hparam = layers[0]["sparse_embedding_hparam"]
        self.first_rows = torch.tensor(np.r_[0, np.cumsum(rows)[:-1]])
        self.table = nn.Embedding(int(sum(rows)), hparam["embedding_vec_size"])
        nn.init.normal_(self.table.weight, std=hparam["init_stddev"])
        shapes = {"dense": (dense,), layers[0]["top"]: (len(rows), hparam["embedding_vec_size"])}
        for layer in layers[1:]:
            bottoms = layer["bottom"] if isinstance(layer["bottom"], list) else [layer["bottom"]]
            self.add(layer, shapes, bottoms)

    def add(self, layer, shapes, bottoms):
        kind, name = layer["type"], layer["name"]
        shape = shapes.get(bottoms[0])
        if kind == "InnerProduct":
            part = nn.Linear(shape[0], layer["fc_param"]["num_output"])
            nn.init.xavier_normal_(part.weight)
            nn.init.zeros_(part.bias)
            shape = (part.out_features,)
        elif kind == "BatchNorm":
            part = nn.BatchNorm1d(shape[0], eps=layer["bn_param"]["eps"], momentum=layer["bn_param"]["factor"])
        elif kind == "MultiCross":
            part = Cross(shape[0], layer["mc_param"]["num_layers"])
            for weight in part.weights:
                nn.init.xavier_normal_(weight.weight)
        elif kind == "WeightMultiply":
            slots, width = layer["weight_dims"]
            part = nn.Linear(width, slots, bias=False)  # holds [slots, width]
            nn.init.uniform_(part.weight, -math.sqrt(6 / (slots + slots * width)), math.sqrt(6 / (slots + slots * width)))
            shape = (slots * width,)
        else:
            part = None
            if kind == "Reshape":
                shape = (layer["leading_dim"],)
            elif kind == "Concat":
                shape = (sum(shapes[b][0] for b in bottoms),)
            elif kind == "ReduceSum":
                shape = (1,)
            elif kind == "FmOrder2":
                shape = (layer["out_dim"],)
            elif kind == "Interaction":
                n = shapes[bottoms[1]][0] + 1
                shape = (shape[0] + n * (n - 1) // 2 + 1,)
        if part is not None:
            self.parts[name] = part
        for i, top in enumerate(layer["top"] if isinstance(layer["top"], list) else [layer["top"]]):
            shapes[top] = (layer["ranges"][i][1] - layer["ranges"][i][0],) if kind == "Slice" else shape

    def forward(self, dense, keys):
        batch = len(keys)
        tensors = {"dense": dense, self.layers[0]["top"]: self.table(keys + self.first_rows)}
        for layer in self.layers[1:]:
            kind, names = layer["type"], layer["bottom"] if isinstance(layer["bottom"], list) else [layer["bottom"]]
            if kind == "BinaryCrossEntropyLoss":
                base = layer.get("base_score", 0.5)
                return tensors[names[0]].reshape(batch) + math.log(base / (1 - base))
            x = [tensors[n] for n in names]
            if kind == "Slice":
                for top, (begin, end) in zip(layer["top"], layer["ranges"]):
                    tensors[top] = x[0][:, begin:end]
                continue
            tensors[layer["top"]] = self.run(kind, layer, x, batch)
        raise ValueError("the config has no loss")

    def run(self, kind, layer, x, batch):
        if kind in ("InnerProduct", "BatchNorm", "MultiCross"):
            return self.parts[layer["name"]](x[0])
        if kind == "ReLU":
            return torch.relu(x[0])
        if kind == "Dropout":
            return fn.dropout(x[0], layer["rate"], self.training)
        if kind == "Reshape":
            return x[0].reshape(-1, layer["leading_dim"])
        if kind == "Concat":
            return torch.cat(x, 1)
        if kind == "Add":
            return sum(x[1:], x[0])
        if kind == "ElementwiseMultiply":
            return math.prod(x[1:], start=x[0])
        if kind == "ReduceSum":
            return x[0].sum(1, keepdim=True)
        if kind == "WeightMultiply":
            return (x[0].unsqueeze(2) * self.parts[layer["name"]].weight).reshape(batch, -1)
        if kind == "FmOrder2":
            vectors = x[0].reshape(batch, -1, layer["out_dim"])
            return 0.5 * (vectors.sum(1) ** 2 - (vectors ** 2).sum(1))
        if kind == "Interaction":
            vectors = torch.cat([x[0].unsqueeze(1), x[1]], 1)
            above, left = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
            dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, above, left]
            return torch.cat([x[0], dots, x[0].new_zeros(batch, 1)], 1)
        raise ValueError(f"layer type {kind} is not spelled here")


def evaluate(model, split, batch):
    model.eval()
    labels, dense, keys = split
    with torch.no_grad():
        logits = torch.cat([model(d, k) for d, k in zip(dense.split(batch), keys.split(batch))]).double().numpy()
    y = labels.double().numpy()
    loss = np.mean(np.maximum(logits, 0) - logits * y + np.log1p(np.exp(-np.abs(logits))))
    return auc(logits, y), float(loss)


def train(config, folder, seed):
    torch.manual_seed(seed)
    solver, data = config["solver"], config["layers"][0]
    hparam = config["layers"][1]["sparse_embedding_hparam"]
    with open(os.path.join(folder, hparam["slot_size_array"])) as f:
        rows = json.load(f)["slot_size_array"]
    dense_dim, batch = data["dense"]["dense_dim"], solver["batchsize"]
    splits = {key: read_split(os.path.join(folder, data[key]), dense_dim, len(rows))
              for key in ("source", "eval_source", "test_source")}
    model = Spelled(config["layers"][1:], dense_dim, rows)
    rule = config["optimizer"]["adam_hparam"]
    optimizer = torch.optim.Adam(model.parameters(), lr=rule["learning_rate"], betas=(rule["beta1"], rule["beta2"]),
                                 eps=rule["epsilon"])
    penalty, plateau, stop = hparam.get("lambda", 0), solver["lr_plateau"], solver["early_stop"]
    labels, dense, keys = splits["source"]
    best, best_state, waited, since_cut, epochs = -math.inf, None, 0, 0, 0
    for epochs in range(1, solver["num_epochs"] + 1):
        model.train()
        for chosen in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            loss = fn.binary_cross_entropy_with_logits(model(dense[chosen], keys[chosen]), labels[chosen])
            (loss + penalty / 2 * (model.table.weight ** 2).sum()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), solver["gradient_clip_norm"])
            optimizer.step()
        value, _ = evaluate(model, splits["eval_source"], 8192)
        if value >= best + stop["min_delta"]:
            best, best_state, waited = value, copy.deepcopy(model.state_dict()), 0
            since_cut = 0
            continue
        waited, since_cut = waited + 1, since_cut + 1
        if since_cut >= plateau["patience"]:
            since_cut = 0
            for group in optimizer.param_groups:
                group["lr"] = max(group["lr"] * plateau["factor"], plateau["min_lr"])
        if waited >= stop["patience"]:
            break
    model.load_state_dict(best_state)
    test_auc, test_loss = evaluate(model, splits["test_source"], 8192)
    return {"auc": test_auc, "loss": test_loss, "valid_auc": best, "epochs": epochs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--data", default=".", help="the folder that the config's paths begin in")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    with open(a.config) as f:
        config = json.load(f)
    begin = time.process_time()
    result = train(config, a.data, a.seed)
    print(json.dumps({**result, "cpu_seconds": time.process_time() - begin}))


if __name__ == "__main__":
    main()
