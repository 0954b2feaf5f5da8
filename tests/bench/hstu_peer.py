#!/usr/bin/env python3
"""Trains DLRMv4's model (configs/mlperf_dlrmv4.json) with `train` and with PyTorch on the same samples, in turn.

The samples are those of docs/gallery/yambda.py. `train` has tables of a --share of the benchmark's rows, of which --host-gb
lie in memory and the others on the disk. PyTorch has at most --peer-rows rows, which all lie in memory. Its modules follow
the formulas of DLRM-HSTU as its reference computes them on a CPU: all events of a batch in one row of tokens, attention on
tensors padded to the longest sequence with scores of [B,H,N,N], the layers written with torch's functions, row-wise AdaGrad
of the distinct rows of a batch, Adam. Each figure is what more iterations take: start-up and first iterations cancel.

The floor: FLOPs of the products over the events that there are (attention: half of length^2), at the rate of a large
product in PyTorch; of the last layer those of keys and values, as nothing reads the other rows.

    python3 docs/gallery/yambda.py generate --users 400 --events 1200 --days 12 --artists 64000 --out v4/log
    python3 docs/gallery/yambda.py prepare v4/log/multi_event.parquet --artists v4/log/artist_item_mapping.parquet \\
        --albums v4/log/album_item_mapping.parquet --per-kind 170 --among 3400 --min-past 510 --train 6:7 --test 7 \\
        --share 20 --out v4/d
    python3 tests/bench/hstu_peer.py v4/d --disk v4

The interpreter needs torch, numpy and polars.
"""
import argparse
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
D, HEADS, LAYERS, CONTEXT = 512, 4, 3, 8


def config(folder, length):
    with open(os.path.join(ROOT, "configs/mlperf_dlrmv4.json"), encoding="utf-8") as file:
        c = json.load(file)
    c["solver"] = {"batchsize": args.batch, "display": 1_000_000, "seed": 1, "gradient_clip_norm": 1.0, "gradient_clip_scope": "dense",
                   "precision": args.precision}
    if args.host_gb:
        c["solver"]["embedding_memory"] = {"host_gb": args.host_gb, "disk": os.path.abspath(args.disk)}
    for layer in c["layers"]:
        if layer["type"] == "Data":
            for key in ("num_samples", "eval_num_samples", "eval_source"):
                layer.pop(key)
            layer["source"] = os.path.abspath(folder) + "/train"
            for part in layer["sparse"][1:]:
                part["max_len"] = length
        if layer["name"] == "tables":
            sizes = layer["sparse_embedding_hparam"]["slot_size_array"]
            layer["sparse_embedding_hparam"]["slot_size_array"] = [max(1, n // args.share) for n in sizes]
    return c


def read(folder, samples):
    """Of the first samples: labels, dense features, keys of tokens, and for each column of histories its lists."""
    import polars as pl
    with open(folder + "/yambda.json", encoding="utf-8") as file:
        facts = json.load(file)
    cats = facts["columns"]["cats"]
    f = pl.read_parquet(sorted(glob.glob(folder + "/train/*.parquet"))[0], n_rows=samples)
    lists = {name: [x.to_numpy().astype(np.int64) for x in f[name]] for name in cats[CONTEXT:]}
    return facts["max_len"], f["label"].to_numpy(), f.select(facts["columns"]["conts"]).to_numpy(), f.select(cats[:CONTEXT]).to_numpy().astype(np.int64), lists


def flops(lengths):
    """Of forward and backward of samples with so many events each, the candidate among them."""
    events, tokens = lengths.sum(), (lengths + CONTEXT).sum()
    total = events * 256 * (D + D + 2 * D + D + 24 + D) + len(lengths) * (CONTEXT * D * D + (D + 4) * D + 3 * D * D + 2 * D * D)
    pairs = ((lengths + CONTEXT) ** 2).sum() / 2
    total += (LAYERS - 1) * (tokens * (4 * D * D + 3 * D * D) + pairs * 2 * D)
    total += tokens * 2 * D * D + len(lengths) * 5 * D * D + tokens * 2 * D
    return 6 * total


def torch_model(rows, length):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class SwishNorm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.norm = nn.LayerNorm(n)

        def forward(self, x):
            return x * torch.sigmoid(self.norm(x))

    def mlp(n, hidden=256):
        return nn.Sequential(nn.Linear(n, hidden), SwishNorm(hidden), nn.Linear(hidden, D), nn.LayerNorm(D))

    class Stu(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_in, self.norm_out = nn.LayerNorm(D, eps=1e-6), nn.LayerNorm(D, eps=1e-6)
            self.uvqk, self.out = nn.Linear(D, 4 * D), nn.Linear(3 * D, D, bias=False)

        def forward(self, x, place, batch, n, mask):
            u, v, q, k = F.linear(self.norm_in(x), self.uvqk.weight, self.uvqk.bias).split(D, -1)
            u = F.silu(u)

            def padded(y):
                return y.new_zeros(batch * n, D).index_copy(0, place, y).view(batch, n, HEADS, -1)
            scores = torch.einsum("bnhd,bmhd->bhnm", padded(q), padded(k)) * (D // HEADS) ** -0.5
            scores = F.silu(scores) / n * mask
            o = torch.einsum("bhnm,bmhd->bnhd", scores, padded(v)).reshape(batch * n, D)[place]
            y = torch.cat([u, o, u * self.norm_out(o)], -1)
            return x + F.dropout(self.out(y), 0.1, self.training)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(rows, D, sparse=True)
            d = self.dense = nn.ModuleDict()
            d.update({"content": mlp(D), "makers": mlp(2 * D), "actions": mlp(24), "action_rows": nn.Embedding(3, 8),
                      "positions": nn.Embedding(length + CONTEXT, D), "times": nn.Embedding(2049, D)})
            self.target = nn.Parameter(torch.randn(24))
            self.context = nn.Parameter(torch.randn(CONTEXT, D, D) * math.sqrt(2 / (2 * D)))
            self.context_bias = nn.Parameter(torch.zeros(CONTEXT, 1, D))
            d["stu"] = nn.ModuleList(Stu() for _ in range(LAYERS))
            d["user"] = nn.Sequential(nn.Linear(D + 4, D), nn.LayerNorm(D))
            d["item"] = mlp(3 * D, D)
            d["task"] = nn.Sequential(nn.Linear(D, D), SwishNorm(D), nn.Linear(D, 1))

        def forward(self, dense, context, events, actions, times, lengths):
            d, batch = self.dense, len(lengths)
            ends, total = torch.cumsum(lengths, 0), int(lengths.sum())
            n = int(lengths.max()) + CONTEXT
            rows = self.table(torch.cat([context.flatten(), events.flatten()]))
            tokens, events = rows[:context.numel()].view(CONTEXT, batch, D), rows[context.numel():].view(total, 3 * D)
            bits = (actions.unsqueeze(-1) >> torch.arange(3)) & 1
            action = (bits.unsqueeze(-1) * d["action_rows"].weight).flatten(1)
            action = torch.where((actions == 0).unsqueeze(-1), self.target, action)
            from_end = torch.repeat_interleave(ends, lengths) - 1 - torch.arange(total)
            x = d["content"](events[:, :D]) + d["makers"](events[:, D:]) + d["actions"](action)
            x = x + d["positions"](from_end + CONTEXT) + d["times"](times)
            tokens = torch.baddbmm(self.context_bias, tokens, self.context).transpose(0, 1)
            tokens = tokens + d["positions"].weight[:CONTEXT] + d["times"].weight[0]
            begins = torch.arange(batch) * n
            at_event = torch.repeat_interleave(begins + CONTEXT - (ends - lengths), lengths) + torch.arange(total)
            at_token = (begins.unsqueeze(1) + torch.arange(CONTEXT)).flatten()
            place = torch.cat([at_token, at_event])
            x = F.dropout(torch.cat([tokens.reshape(-1, D).to(x.dtype), x]), 0.2, self.training)
            row = torch.arange(n)
            mask = (row[None, :] <= row[:, None])[None, None] & (row < (lengths + CONTEXT)[:, None])[:, None, None, :]
            for stu in d["stu"]:
                x = stu(x, place, batch, n, mask)
            last = x[len(at_token) + ends - 1]
            user = d["user"](torch.cat([last, dense], 1))
            return d["task"](user * d["item"](events[ends - 1]))

    return Net()


def run_torch(folder):
    """Prints seconds and CPU seconds of so many iterations, what an iteration has to do, and the rate of a large product."""
    import torch
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    many, warm = args.iterations, 2
    length, labels, dense, context, lists = read(folder, (many + warm) * args.batch)
    with open(os.path.join(ROOT, "configs/mlperf_dlrmv4.json"), encoding="utf-8") as file:
        sizes = next(layer for layer in json.load(file)["layers"] if layer["name"] == "tables")["sparse_embedding_hparam"]["slot_size_array"]
    sizes = np.array([max(1, n // args.share) for n in sizes])
    sizes = np.maximum(1, (sizes * min(1, args.peer_rows / sizes.sum())).astype(np.int64))
    begins = np.cumsum(sizes) - sizes
    columns = list(lists)
    net = torch_model(int(sizes.sum()), length)
    dense_parameters = [p for name, p in net.named_parameters() if name != "table.weight"]
    adam = torch.optim.Adam(dense_parameters, lr=1e-6, betas=(0.95, 0.999), eps=1e-8, fused=True)
    state = torch.zeros(int(sizes.sum()))

    def batch(i):
        of = slice(i * args.batch, (i + 1) * args.batch)
        lengths = np.array([len(x) for x in lists[columns[0]][of]])
        flat = [np.concatenate(lists[name][of]) for name in columns]
        events = np.stack([begins[CONTEXT + j] + flat[j] % sizes[CONTEXT + j] for j in range(3)], 1)
        keys = (begins[:CONTEXT] + context[of] % sizes[:CONTEXT]).T.copy()
        return torch.tensor(labels[of]), [torch.tensor(x) for x in (dense[of], keys, events, flat[3], flat[4], lengths)]

    def step(label, inputs):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            logit = net(*inputs).float().squeeze(1)
        loss = 0.2 * torch.nn.functional.binary_cross_entropy_with_logits(logit, label)
        net.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(dense_parameters, 1.0)
        adam.step()
        with torch.no_grad():
            grad = net.table.weight.grad.coalesce()
            rows, values = grad.indices()[0], grad.values()
            state.index_add_(0, rows, values.square().mean(1))
            net.table.weight.index_add_(0, rows, values / (state[rows].sqrt() + 1e-8).unsqueeze(1), alpha=-1e-6)

    batches = [batch(i) for i in range(many + warm)]
    net.train()
    work = flops(np.concatenate([b[1][5].numpy() for b in batches])) / (many + warm)
    for i, one in enumerate(batches):
        if i == warm:
            wall, cpu = time.time(), time.process_time()
        step(*one)
    wall, cpu = time.time() - wall, time.process_time() - cpu
    a = torch.ones(2048, 2048, dtype=torch.bfloat16 if args.precision == "bf16" else torch.float32)
    a @ a
    start, elapsed = time.process_time(), time.time()
    for _ in range(16):
        a @ a
    rates = [16 * 2 * 2048 ** 3 / (now - at) for now, at in ((time.time(), elapsed), (time.process_time(), start))]
    print(json.dumps([wall / many, cpu / many, work, *rates]))


def run_train(conf, iterations):
    """Seconds and CPU seconds of an iteration, and the largest memory in MB."""
    def once(n):
        wall, cpu = time.time(), sum(os.times()[2:4])  # of children
        child = subprocess.Popen([args.train, "--config", conf, "--threads", str(args.threads), "--quiet", "--set", f"solver.max_iter={n}"])
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{args.train} ended with status {status}")
        return np.array([time.time() - wall, usage.ru_utime + usage.ru_stime]), usage.ru_maxrss / 1024
    few, _ = once(2)
    many, memory = once(iterations + 2)
    return (many - few) / iterations, memory


def main():
    with open(args.data + "/yambda.json", encoding="utf-8") as file:
        length = json.load(file)["max_len"]
    with tempfile.TemporaryDirectory() as folder:
        conf = folder + "/config.json"
        with open(conf, "w", encoding="utf-8") as file:
            json.dump(config(args.data, length), file)
        pairs = []
        for _ in range(args.rounds):
            ours, memory = run_train(conf, args.iterations)
            out = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--run"], check=True, stdout=subprocess.PIPE, text=True)
            wall, cpu, work, rate, cpu_rate = json.loads(out.stdout.splitlines()[-1])
            pairs.append([*ours, wall, cpu, work / rate, work / cpu_rate])
    ours, cpu, wall, peer_cpu, floor, cpu_floor = np.median(pairs, 0)
    ratios = np.median([[p[2] / p[0], p[3] / p[1]] for p in pairs], 0)
    print(f"T {length}, {args.precision}, batch {args.batch}: train {args.batch / ours:,.2f} samples/s ({cpu / args.batch:.3f} CPU s a sample), "
          f"{100 * floor / ours:.0f} % of the floor ({100 * cpu_floor / cpu:.0f} % in CPU time), at most {memory:,.0f} MB")
    print(f"PyTorch {args.batch / wall:,.2f} samples/s ({peer_cpu / args.batch:.3f} CPU s): train is {ratios[0]:.2f} times as fast, {ratios[1]:.2f} in CPU time")


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("data", help="a folder that yambda.py prepared")
    ap.add_argument("--train", default=os.path.join(ROOT, "build/release/bin/train"))
    ap.add_argument("--disk", default=".", help="a folder for the rows that are not in memory")
    ap.add_argument("--host-gb", type=float, default=4, help="of rows in memory; 0: all of them")
    ap.add_argument("--share", type=int, default=20, help="train has one of so many of the benchmark's rows")
    ap.add_argument("--peer-rows", type=int, default=1_000_000)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--iterations", type=int, default=10)
    ap.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.run:
        run_torch(args.data)
    else:
        main()
