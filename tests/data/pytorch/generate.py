#!/usr/bin/env python3
"""Writes losses.json: the losses of small runs in PyTorch (CPU, double precision), for tests/end_to_end/pytorch_test.cpp.

Data, initial weights and dropout masks are numbers of the counter-based generator that hugectr_lite/core/random.h
names (Philox4x32-10), computed here from its definition, so that losses.json holds configs and losses only.
Run it with any PyTorch from 1.13 on; it prints how far float32 is from the losses that it writes.
"""
import json
import math
import os
import warnings

import numpy as np
import torch
import torch.nn.functional as fn

BATCH, ITERATIONS, DENSE, ROWS, WIDTH = 32, 50, 4, [24, 5, 60], 4
EVALUATED = 320  # samples, from the first on
SEED = 7  # of the runs, which draw nothing but dropout masks


def philox(seed, stream, index):
    """The word of each element of `index` (uint64) in a stream."""
    index = np.asarray(index, np.uint64)
    word = np.uint64(0xFFFFFFFF)
    at, shift = index // np.uint64(4), np.uint64(32)
    c = [at & word, at >> shift, np.full_like(at, stream & 0xFFFFFFFF), np.full_like(at, stream >> 32)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & word, (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & word]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.choose((index % np.uint64(4)).astype(np.intp), c)


def uniform(seed, stream, index):
    """[0, 1) in steps of 2^-24."""
    return (philox(seed, stream, index) >> np.uint64(8)).astype(np.float64) / 2 ** 24


def stream_of(name):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & 0xFFFFFFFFFFFFFFFF
    return h


def samples(data):
    """Labels [n], weights [n] or None, dense [n, DENSE] and keys [n, slots] of the training file, as pytorch_test.cpp
    writes it. data: of the Data layer, sample_weight, real and negative_share."""
    share = data.get("negative_share", 1)
    i = np.arange(int(BATCH * ITERATIONS * 3), dtype=np.uint64)
    even = philox(1, 0, i) % np.uint64(ROWS[0]) % np.uint64(2) == 0
    labels = even == (philox(3, 0, i) % np.uint64(100) < 80)
    i = i[labels | (philox(SEED, stream_of("share of negatives"), i) < share * 2 ** 32)][:BATCH * ITERATIONS]
    assert len(i) == BATCH * ITERATIONS
    keys = np.stack([philox(1, s, i) % np.uint64(rows) for s, rows in enumerate(ROWS)], 1).astype(np.int64)
    dense = np.stack([2 * uniform(2, j, i) - 1 for j in range(DENSE)], 1)
    even = keys[:, 0] % 2 == 0
    labels = 2 * uniform(6, 0, i) - even if data.get("real") else labels[i.astype(np.int64)]
    weights = np.where(philox(5, 1, i) % np.uint64(7) == 0, 0, 3 * uniform(5, 0, i)) if data.get("sample_weight") else None
    return labels.astype(np.float64), weights, dense, keys


def initial(name, shape):
    """In [-1, 1), and for what is no table in [-1/2, 1/2)."""
    values = 2 * uniform(4, stream_of(name), np.arange(math.prod(shape))) - 1
    return (values if ".table_" in name else values / 2).reshape(shape)


def parameters(layers):
    """Name -> shape of what the layers learn, in their order."""
    shapes = {f"emb.table_{t}": [rows, WIDTH] for t, rows in enumerate(ROWS)}
    width = {"dense": DENSE, "flat": len(ROWS) * WIDTH}
    for layer in layers:
        kind, name, top = layer["type"], layer.get("name", layer["top"]), layer["top"]
        bottoms = layer["bottom"] if isinstance(layer["bottom"], list) else [layer["bottom"]]
        n = sum(width.get(b, 0) for b in bottoms)
        if kind == "InnerProduct":
            outputs = {name: layer["fc_param"]["num_output"]}
        elif kind == "MLP":
            outputs = {f"{name}.{i}": out for i, out in enumerate(layer["mlp_param"]["num_outputs"])}
        else:
            outputs = {}
        for part, out in outputs.items():
            shapes[part + ".weight"], shapes[part + ".bias"], n = [n, out], [out], out
        if kind == "MultiCross":
            for i in range(layer["mc_param"]["num_layers"]):
                shapes[f"{name}.weight_{i}"], shapes[f"{name}.bias_{i}"] = [n, n], [n]
        if kind != "Reshape":
            width[top] = n
    return shapes


def drop(x, name, rate, step):
    """Inverted dropout under the mask of iteration `step`, which counts from 1."""
    index = np.uint64(step << 40) + np.arange(x.numel(), dtype=np.uint64)
    kept = uniform(SEED, stream_of(name + ".mask"), index) >= np.float32(rate)
    return x * torch.tensor(kept.reshape(x.shape)).to(x.dtype) / (1 - rate)


def mlp(layer, x, w, step):
    param, name = layer["mlp_param"], layer["name"]
    count = len(param["num_outputs"])
    rates = param.get("dropouts", [0] * count)
    for i, (kind, rate) in enumerate(zip(param["activations"], rates)):
        x = x @ w[f"{name}.{i}.weight"] + w[f"{name}.{i}.bias"]
        x = {"Relu": fn.relu, "Gelu": fn.gelu, "None": lambda y: y}[kind](x)
        if rate > 0 and step > 0:  # evaluations drop nothing
            x = drop(x, f"{name}.{i}.dropout", rate, step)
    return x


def forward(layers, w, dense, keys, step):
    """(the loss layer, its logits [n])"""
    tensors = {"dense": dense}
    vectors = torch.stack([w[f"emb.table_{s}"][keys[:, s]] for s in range(len(ROWS))], 1)
    for layer in layers:
        kind, name = layer["type"], layer.get("name", layer["top"])
        bottoms = layer["bottom"] if isinstance(layer["bottom"], list) else [layer["bottom"]]
        x = tensors.get(bottoms[0])
        if kind == "Reshape":
            y = vectors.flatten(1)
        elif kind == "Concat":
            y = torch.cat([tensors[b] for b in bottoms], 1)
        elif kind == "InnerProduct":
            y = x @ w[name + ".weight"] + w[name + ".bias"]
        elif kind == "MLP":
            y = mlp(layer, x, w, step)
        elif kind == "GELU":
            y = fn.gelu(x)
        elif kind == "MultiCross":  # x' = x0 * (W x + b) + x; our W is the transpose of nn.Linear's
            y = x
            for i in range(layer["mc_param"]["num_layers"]):
                y = x * (y @ w[f"{name}.weight_{i}"] + w[f"{name}.bias_{i}"]) + y
        elif kind in ("BinaryCrossEntropyLoss", "MSELoss"):
            return layer, x[:, 0]
        tensors[layer["top"]] = y
    raise ValueError("no loss")


def losses_of(layer, logits, labels):
    """[n]: of each sample, without its weight."""
    if layer["type"] == "MSELoss":
        return fn.mse_loss(logits, labels, reduction="none")
    weight = torch.tensor(layer.get("pos_weight", 1.0), dtype=logits.dtype)
    return fn.binary_cross_entropy_with_logits(logits, labels, pos_weight=weight, reduction="none")


def evaluation(layers, w, labels, weights, dense, keys, share):
    """Metrics of a model: those of scikit-learn's sample_weight, of scores that are right for all negatives."""
    with torch.no_grad():
        layer, z = forward([{**layer, "pos_weight": 1.0} if layer["type"].endswith("Loss") else layer for layer in layers],
                           w, dense, keys, 0)
        if share < 1:  # p = q / (q + (1 - q) / r)
            q = torch.sigmoid(z)
            z = torch.logit(q / (q + (1 - q) / share))
        weights = torch.ones_like(z) if weights is None else weights
        loss = float((losses_of(layer, z, labels) * weights).sum() / weights.sum())
        if layer["type"] == "MSELoss":
            return {"loss": loss, "rmse": math.sqrt(loss)}
        positive = labels == 1
        better = (z[positive][:, None] > z[~positive]).to(z.dtype) + (z[positive][:, None] == z[~positive]).to(z.dtype) / 2
        pairs = weights[positive][:, None] * weights[~positive]
        return {"loss": loss, "auc": float((better * pairs).sum() / pairs.sum())}


def make_optimizer(config, w):
    kind = config["type"]
    param = config[{"SGD": "sgd_hparam", "AdamW": "adamw_hparam"}[kind]]
    rate, decay = param["learning_rate"], param.get("weight_decay", 0)
    if kind == "SGD":
        optimizer = torch.optim.SGD(w, lr=rate, weight_decay=decay)
    else:
        optimizer = torch.optim.AdamW(w, lr=rate, betas=(param["beta1"], param["beta2"]), eps=param["epsilon"],
                                      weight_decay=decay)
    schedules = torch.optim.lr_scheduler
    warmup, kind = param.get("warmup_steps", 1), param.get("decay")
    after = {"cosine": lambda: schedules.CosineAnnealingLR(optimizer, param["decay_steps"], param.get("end_lr", 0)),
             "exponential": lambda: schedules.ExponentialLR(optimizer,
                                                            param["decay_rate"] ** (1 / param["decay_steps"])),
             None: lambda: schedules.ConstantLR(optimizer, 1)}[kind]()
    if warmup == 1:
        return optimizer, after
    # Its steps count from 0: rate / warmup up to the base rate in step warmup - 1. The decay begins a step later.
    assert kind is None or param["decay_start"] == warmup + 1
    linear = schedules.LinearLR(optimizer, 1 / warmup, 1, warmup - 1)
    return optimizer, schedules.SequentialLR(optimizer, [linear, after], [warmup])


def keep_other_rows(w, optimizer, keys, before):
    """Undoes a step for the rows that the batch does not have: update_type Local."""
    for s in range(len(ROWS)):
        table = w[f"emb.table_{s}"]
        others = torch.ones(len(table), dtype=torch.bool)
        others[keys[:, s]] = False
        table.data[others] = before[s][0][others]
        for name, value in optimizer.state.get(table, {}).items():
            if value is not None and torch.is_tensor(value) and value.shape == table.shape:
                value[others] = before[s][1][name][others] if before[s][1] else 0


def rows_and_states(w, optimizer, s):
    table = w[f"emb.table_{s}"]
    state = {k: v.clone() for k, v in optimizer.state.get(table, {}).items() if torch.is_tensor(v)}
    return table.detach().clone(), state


def train(layers, optimizer_config, dtype, data):
    w = {name: torch.tensor(initial(name, shape)).to(dtype).requires_grad_()
         for name, shape in parameters(layers).items()}
    optimizer, schedule = make_optimizer(optimizer_config, list(w.values()))
    labels, weights, dense, keys = samples(data)
    labels, dense, keys = torch.tensor(labels).to(dtype), torch.tensor(dense).to(dtype), torch.tensor(keys)
    weights = None if weights is None else torch.tensor(weights).to(dtype)
    losses, rates = [], []
    for i in range(ITERATIONS):
        at = slice(i * BATCH, (i + 1) * BATCH)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        layer, logits = forward(layers, w, dense[at], keys[at], i + 1)
        loss = losses_of(layer, logits, labels[at])
        loss = (loss if weights is None else loss * weights[at]).mean()  # as weight= with reduction="mean"
        loss.backward()
        before = [rows_and_states(w, optimizer, s) for s in range(len(ROWS))]
        optimizer.step()
        if optimizer_config.get("update_type", "Local") == "Local":
            keep_other_rows(w, optimizer, keys[at], before)
        schedule.step()
        losses.append(loss.item())
    part = slice(0, EVALUATED)
    metrics = evaluation(layers, w, labels[part], None if weights is None else weights[part], dense[part], keys[part],
                         data.get("negative_share", 1))
    return losses, rates, metrics


IN = [{"type": "Reshape", "bottom": "emb", "top": "flat", "leading_dim": len(ROWS) * WIDTH},
      {"type": "Concat", "bottom": ["flat", "dense"], "top": "x"}]
OUT = [{"name": "out", "type": "InnerProduct", "bottom": "h", "top": "z", "fc_param": {"num_output": 1}},
       {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]


MSE = [OUT[0], {**OUT[1], "type": "MSELoss"}]


def tower(activations=("Gelu", "Gelu"), top="h", **more):
    return [{"name": "mlp", "type": "MLP", "bottom": "x", "top": top,
             "mlp_param": {"num_outputs": [12, 6], "activations": list(activations), **more}}]


def sgd(update_type="Local", **more):
    return {"type": "SGD", "update_type": update_type, "sgd_hparam": {"learning_rate": 2, **more}}


def adamw(update_type):
    return {"type": "AdamW", "update_type": update_type,
            "adamw_hparam": {"learning_rate": 0.05, "beta1": 0.85, "beta2": 0.95, "epsilon": 1e-3, "weight_decay": 0.4}}


CASES = {
    "cosine decay after warm-up": (tower(), sgd(warmup_steps=8, decay_start=9, decay_steps=41, decay="cosine",
                                                end_lr=0.1)),
    "exponential decay": (tower(), sgd(decay_start=1, decay_steps=7, decay="exponential", decay_rate=0.5)),
    "GELU in an MLP and alone": (tower(("Relu", "Gelu"), top="g") + [{"type": "GELU", "bottom": "g", "top": "h"}], sgd()),
    "AdamW, all rows": (tower(), adamw("Global")),
    "AdamW, rows of the batch": (tower(), adamw("Local")),
    "SGD with weight decay, all rows": (tower(), sgd("Global", weight_decay=0.02)),
    "SGD with weight decay, rows of the batch": (tower(), sgd(weight_decay=0.02)),
    "dropout in an MLP": (tower(("Gelu", "None"), dropouts=[0.25, 0.5]), sgd()),
    "cross layers of full rank": ([{"name": "h", "type": "MultiCross", "bottom": "x", "top": "h",
                                    "mc_param": {"num_layers": 3, "full_rank": True}}], sgd()),
    "a weight for positives": (tower() + [OUT[0], {**OUT[1], "pos_weight": 2.5}], sgd()),
    "weights of samples": (tower(), sgd(), {"sample_weight": True}),
    "weights of samples and of positives": (tower() + [OUT[0], {**OUT[1], "pos_weight": 2.5}], sgd(learning_rate=0.5),
                                            {"sample_weight": True}),
    "squared error": (tower() + MSE, sgd(learning_rate=0.3), {"real": True}),
    "squared error, weights of samples": (tower() + MSE, sgd(learning_rate=0.3), {"real": True, "sample_weight": True}),
    "a quarter of the negatives": (tower(), sgd(), {"negative_share": 0.25}),
}


def main():
    warnings.filterwarnings("ignore", "The epoch parameter")  # of SequentialLR, in 1.13
    runs = []
    plain = train(IN + tower() + OUT, sgd(), torch.float64, {})[0]
    for name, (middle, optimizer, *more) in CASES.items():
        data = more[0] if more else {}
        layers = IN + middle + (OUT if middle[-1]["top"] == "h" else [])
        losses, rates, metrics = train(layers, optimizer, torch.float64, data)
        single = train(layers, optimizer, torch.float32, data)[0]
        off = max(abs(a - b) / a for a, b in zip(losses, single))
        print(f"{name}: {losses[0]:.6f} ... {losses[-1]:.6f}, float32 is off by {off:.1e}")
        assert off < 2e-6, name
        # Each run must differ from all others by more than a test's tolerance, 1e-5.
        for other, of in [("plain", plain)] + [(run["name"], run["losses"]) for run in runs]:
            assert max(abs(a - b) / a for a, b in zip(losses, of)) > 1e-3, (name, other)
        runs.append({"name": name, "data": data, "optimizer": optimizer, "layers": layers, "tensors": parameters(layers),
                     "rates": rates, "losses": losses, "evaluation": metrics})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.json"), "w", encoding="utf-8") as file:
        about = {"torch": torch.__version__, "seed": SEED, "batch": BATCH, "dense": DENSE, "rows": ROWS, "width": WIDTH,
                 "evaluated": EVALUATED}
        file.write(json.dumps(about)[:-1] + ',\n "runs": [\n' + ",\n".join(json.dumps(r) for r in runs) + "\n]}\n")


if __name__ == "__main__":
    main()
