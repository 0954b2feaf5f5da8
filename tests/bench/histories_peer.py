#!/usr/bin/env python3
"""Trains DIN and BST with `train` and with PyTorch on the same generated histories, in turn, and compares them.

DIN: 50 events 64 wide, attention 256-80-40-1 with sigmoids, softmax, head 200-80-1. BST: 50 events and the target 32 wide, one
block of 4 heads, feed-forward 128 wide, the last row to a head 200-80-1. Adam on dense weights and on the rows of a batch;
batches of 1,024. Histories are full, or geometric in length with a mean of a quarter. Each figure is what more iterations
take: start-up and first iterations cancel. PyTorch computes padding under a mask, as its users write such models; `sdpa`
takes its fused attention, `last` moreover, as `train` does, computes the last row of the block alone.

The floor: FLOPs that no order of summation avoids (padding, what is alike for all events of a sample, and rows that nothing
reads not counted), at the rate of a large product in PyTorch. Ratios compare CPU time too: on a shared machine wall time
varies by half. The interpreter needs torch and numpy, and build/release/python on PYTHONPATH:

    PYTHONPATH=build/release/python python3 tests/bench/histories_peer.py --rounds 3
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/bin/train")
T, B, USERS, ITEMS, CATES = 50, 1024, 100_000, 63_001, 801
WIDTH = {"din": 32, "bst": 16}  # of a table's row; an event has two
NONE = 0xFFFFFFFF


def write_data(path, length):
    r, n = np.random.default_rng(1), B * 20
    items = (r.zipf(1.2, size=(n, T + 1)) % ITEMS).astype(np.uint32)
    lengths = np.full(n, T) if length == "full" else np.minimum(T, r.geometric(1 / 13.6, n) - 1)
    there = np.arange(T) < lengths[:, None]
    history = [np.where(there, keys, NONE) for keys in (items[:, :T], items[:, :T] % CATES)]
    rows = [r.random((n, 1)) < 0.3, r.integers(0, USERS, (n, 1)), items[:, T:], items[:, T:] % CATES, *history]
    np.hstack([part.astype(np.uint32) for part in rows]).tofile(path)
    return lengths.mean()


def config(model, path):
    import hugectr_lite as hl
    facts = {"format": "Parquet", "train": {"samples": B * 250, "source": path}, "max_len": T,
             "columns": {"labels": ["label"], "cats": ["u", "i", "c", "i_history", "c_history"]}, "rows": {"u": USERS, "i": ITEMS, "c": CATES}}
    c = getattr(hl.models, model)(facts, width=WIDTH[model], hidden=(200, 80), dropout=0)
    c["layers"][0].pop("columns")
    c["layers"][0].update(format="RawAsync", num_samples=B * 20, async_param={"num_threads": 1, "num_batches_per_thread": 2, "multi_hot_reader": True, "shuffle": False})
    c["optimizer"]["update_type"] = "Local"
    c["solver"] = {"batchsize": B, "display": 1_000_000, "seed": 1}
    for layer in c["layers"]:
        if layer.pop("prelu_dice_param", None):
            layer["type"] = "Sigmoid"
        if layer.get("top") == "block0_wide":
            layer["fc_param"]["num_output"] = 128
        for key in ("regularizer", "lambda"):
            layer.get("sparse_embedding_hparam", {}).pop(key, None)
    return c


def macs(model, length):
    """Of the forward pass of a sample with this many events."""
    v, w = WIDTH[model], 2 * WIDTH[model]
    if model == "din":
        return length * (2 * w * 80 + 80 * 40 + 40 + w) + w * 80 + (v + 3 * w) * 200 + 200 * 80 + 80
    return (length + 1) * (2 * w * w + 2 * w) + 2 * w * w + 2 * w * 128 + (v + w) * 200 + 200 * 80 + 80


def torch_model(model, how):
    import torch
    from torch import nn
    v, w = WIDTH[model], 2 * WIDTH[model]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(n, v, sparse=True) for n in (USERS, ITEMS, CATES))
            d = self.dense = nn.ModuleDict()
            d["head"] = nn.Sequential(nn.Linear(v + (3 * w if model == "din" else w), 200), nn.ReLU(), nn.Linear(200, 80), nn.ReLU(), nn.Linear(80, 1))
            if model == "din":
                d["head"][1] = d["head"][3] = nn.Sigmoid()
                d["score"] = nn.Sequential(nn.Linear(4 * w, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1, bias=False))
                return
            d.update({name: nn.Linear(w, w) for name in "qkvo"})
            d.update({"positions": nn.Embedding(T + 1, w), "wide": nn.Linear(w, 128), "narrow": nn.Linear(128, w),
                      "norm1": nn.LayerNorm(w), "norm2": nn.LayerNorm(w)})

        def din(self, u, q, h, mask):
            x = q.unsqueeze(1).expand_as(h)
            score = self.dense["score"](torch.cat([x, h, x - h, x * h], -1)).squeeze(-1)
            weights = torch.softmax(score.masked_fill(~mask, -1e4), -1) * mask
            mean = h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
            return torch.cat([u, mean, torch.bmm(weights.unsqueeze(1), h).squeeze(1), q], 1)

        def bst(self, u, q, h, mask):
            d, n, x = self.dense, mask.sum(1), torch.cat([h, q.unsqueeze(1)], 1)
            at = torch.arange(T + 1).expand(len(n), T + 1)
            # The target goes behind the last event, and positions count from there.
            x = x.gather(1, torch.where(at == n.unsqueeze(1), T, at).unsqueeze(-1).expand_as(x))
            seen = at <= n.unsqueeze(1)
            x = (x + d["positions"]((n.unsqueeze(1) - at).clamp(min=0))) * seen.unsqueeze(-1)
            rows = x.gather(1, n.view(-1, 1, 1).expand(-1, 1, w)) if how == "last" else x
            q, k, val = (d[name](y).unflatten(-1, (4, -1)).transpose(1, 2) for name, y in (("q", rows), ("k", x), ("v", x)))
            mask = seen[:, None, None, :]
            if how in ("sdpa", "last"):
                y = nn.functional.scaled_dot_product_attention(q, k, val, attn_mask=mask)
            else:
                y = torch.softmax((q @ k.transpose(2, 3) * (w // 4) ** -0.5).masked_fill(~mask, -1e4), -1) @ val
            y = d["norm1"](d["o"](y.transpose(1, 2).flatten(2)) + rows)
            y = d["norm2"](d["narrow"](torch.relu(d["wide"](y))) + y)
            return torch.cat([u, y[:, 0] if how == "last" else y[torch.arange(len(n)), n]], 1)

        def forward(self, u, q, h, mask):
            return self.dense["head"](getattr(self, model)(u, q, h, mask)).squeeze(1)

    return Net()


def run_torch(model, how, path, iterations):
    """Prints seconds and CPU seconds of so many iterations."""
    import torch
    torch.set_num_threads(args.threads)
    net = torch_model(model, how)
    forward = torch.compile(net) if how == "compile" else net
    users, items, cates = net.tables
    optimizers = [torch.optim.SparseAdam(list(net.tables.parameters())), torch.optim.Adam(net.dense.parameters(), fused=True)]
    rows = torch.from_numpy(np.fromfile(path, np.uint32).reshape(-1, 4 + 2 * T).astype(np.int64))

    def step(i):
        r = rows[i % 20 * B:][:B]
        keys = r[:, 4:].view(B, 2, T)
        mask, keys = keys[:, 0] != NONE, keys.masked_fill(keys == NONE, 0)
        q = torch.cat([items(r[:, 2]), cates(r[:, 3])], -1)
        h = torch.cat([items(keys[:, 0]), cates(keys[:, 1])], -1) * mask.unsqueeze(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(forward(users(r[:, 1]), q, h, mask), r[:, 0].float())
        net.zero_grad()
        loss.backward()
        for o in optimizers:
            o.step()

    a = torch.ones(1536, 1536)
    for i in range(-3, iterations):
        if i == 0:
            wall, cpu = time.time(), time.process_time()
        step(i)
    wall, cpu, start = time.time() - wall, time.process_time() - cpu, time.process_time()
    for _ in range(8):
        a @ a
    print(json.dumps([wall, cpu, 8 * 2 * 1536 ** 3 / (time.process_time() - start)]))


def run_train(conf, iterations):
    def once(n):
        wall, cpu = time.time(), sum(os.times()[2:4])  # of children
        subprocess.run([args.train, "--config", conf, "--threads", str(args.threads), "--quiet", "--set", f"solver.max_iter={n}"], check=True)
        return np.array([time.time() - wall, sum(os.times()[2:4]) - cpu])
    return once(iterations + 3) - once(3)


def compare(model, length):
    with tempfile.TemporaryDirectory() as folder:
        path, conf = folder + "/train.bin", folder + "/config.json"
        flops = 6 * macs(model, write_data(path, length))
        with open(conf, "w", encoding="utf-8") as file:
            json.dump(config(model, path), file)
        hows = [how for how in args.pytorch.split(",") if model == "bst" or how in ("eager", "compile")]
        costs, rates = {name: [] for name in ("train", *hows)}, []
        for _ in range(args.rounds):
            costs["train"].append(run_train(conf, 2 * args.iterations) / (2 * args.iterations))
            for how in hows:
                out = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--run", model, how, path], check=True, stdout=subprocess.PIPE, text=True)
                wall, cpu, rate = json.loads(out.stdout.splitlines()[-1])
                costs[how].append(np.array([wall, cpu]) / args.iterations)
                rates.append(rate)
    ours, floor = costs.pop("train"), flops / np.median(rates)
    wall, cpu = np.median(ours, 0) / B
    print(f"{model} {length}: train {1 / wall:,.0f} samples/s, {1e6 * cpu:.1f} CPU us a sample, {100 * floor / cpu:.0f} % of the floor of {1e6 * floor:.1f} us")
    for how, others in costs.items():
        wall, cpu = np.median(others, 0) / B
        ratio = np.median([other / own for own, other in zip(ours, others)], 0)
        print(f"  PyTorch {how}: {1 / wall:,.0f} samples/s, {1e6 * cpu:.1f} CPU us; train is {ratio[0]:.2f} times as fast, {ratio[1]:.2f} in CPU time", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--train", default=TRAIN)
    ap.add_argument("--models", default="din,bst")
    ap.add_argument("--lengths", default="full,quarter")
    ap.add_argument("--pytorch", default="eager,sdpa,last", help="some of eager, sdpa, last, and compile, which needs a C++ compiler")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--iterations", type=int, default=20)
    ap.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.run:
        run_torch(*args.run, args.iterations)
        sys.exit()
    for m in args.models.split(","):
        for size in args.lengths.split(","):
            compare(m, size)
