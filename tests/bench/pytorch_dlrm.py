#!/usr/bin/env python3
"""A DLRM in plain PyTorch on the shapes of train_bench, for comparison on a CPU.

Spellings: bags   26 EmbeddingBag(sparse=True) and torch.optim, what most people write
           fused  one table updated outside autograd, by index_add_ or for several keys a sample by scatter_add_,
                  and a hand-written backward of the dot products: the fastest plain PyTorch we know (SGD only)
--precision bf16 runs layers and dot products under autocast; --compile compiles all but the embedding.
Prints one JSON object: ms per iteration (median, min) and samples per second.
"""
import argparse
import json
import math
import time
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as fn


class Shape(NamedTuple):
    bottom: list
    top: list
    width: int
    cap: int
    rows: list
    hotness: list = [1] * 26
    cross: tuple = ()  # layers and rank of DCN V2's cross layers in place of the dot products


SHAPES = {
    "kaggle": Shape([512, 256, 64, 16], [512, 256, 1], 16, 1_000_000,
                    [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992,
                     5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]),
    "mlperf": Shape([512, 256, 128], [1024, 1024, 512, 256, 1], 128, 200_000,
                    [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208,
                     11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]),
    "dcnv2": Shape([512, 256, 128], [1024, 1024, 512, 256, 1], 128, 200_000,
                   [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938,
                    155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36],
                   [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1], (3, 512)),
}
DENSE = 13
RATE = 0.01


def mlp(width, widths, last_relu):
    layers = []
    for i, out in enumerate(widths):
        layers.append(nn.Linear(width, out))
        if last_relu or i + 1 < len(widths):
            layers.append(nn.ReLU())
        width = out
    return nn.Sequential(*layers)


class PairwiseDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx, vectors, pairs):
        ctx.save_for_backward(vectors, pairs)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, pairs)

    @staticmethod
    def backward(ctx, grad):
        vectors, pairs = ctx.saved_tensors
        batch, n, _ = vectors.shape
        full = vectors.new_zeros(batch, n * n)
        full[:, pairs] = grad.to(vectors.dtype)
        full = full.view(batch, n, n)
        return torch.bmm(full + full.transpose(1, 2), vectors), None


class CrossLayers(nn.Module):
    """x' = x0 * (x u v + b) + x, `layers` times (Wang et al., DCN V2, 2021)."""
    def __init__(self, width, layers, rank):
        super().__init__()
        scale = math.sqrt(2 / (width + rank))
        self.u = nn.ParameterList(nn.Parameter(scale * torch.randn(width, rank)) for _ in range(layers))
        self.v = nn.ParameterList(nn.Parameter(scale * torch.randn(rank, width)) for _ in range(layers))
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for u, v, b in zip(self.u, self.v, self.b):
            x = torch.addcmul(x, x0, torch.addmm(b, x @ u, v))
        return x


class Dlrm(nn.Module):
    def __init__(self, shape, fused):
        super().__init__()
        self.width = shape.width
        self.rows = [min(r, shape.cap) for r in shape.rows]
        self.hotness = shape.hotness
        self.fused = fused
        n = len(self.rows) + 1
        self.bottom = mlp(DENSE, shape.bottom, True)
        if shape.cross:
            self.cross = CrossLayers(n * self.width, *shape.cross)
            self.top = mlp(n * self.width, shape.top, False)
        else:
            self.cross = None
            self.top = mlp(self.width + n * (n - 1) // 2, shape.top, False)
        row, column = torch.tril_indices(n, n, -1)
        self.pairs = row * n + column
        tables = [torch.empty(r, self.width).uniform_(-1 / math.sqrt(r), 1 / math.sqrt(r)) for r in self.rows]
        if fused:
            self.table = torch.cat(tables)
        else:
            self.bags = nn.ModuleList(nn.EmbeddingBag.from_pretrained(t, freeze=False, mode="sum", sparse=True)
                                      for t in tables)

    def place(self, keys, batch):
        """Keys [B, columns] as look_up() wants them: lists with offsets."""
        if not self.fused:
            slots = torch.split(keys, self.hotness, 1)
            return [(k.reshape(-1), torch.arange(batch) * h) for k, h in zip(slots, self.hotness)]
        first = np.concatenate(([0], np.cumsum(self.rows)[:-1]))
        keys = (keys + torch.from_numpy(np.repeat(first, self.hotness))).reshape(-1)
        hotness = torch.tensor(self.hotness).repeat(batch)
        return keys, hotness.cumsum(0) - hotness, torch.repeat_interleave(torch.arange(len(hotness)), hotness)

    def look_up(self, keys):
        """Tensors [B, slots * V], in the order of the slots."""
        if not self.fused:
            return [bag(*k) for bag, k in zip(self.bags, keys)]
        keys, offsets, _ = keys
        if len(keys) == len(offsets):
            looked_up = self.table.index_select(0, keys)
        else:
            looked_up = fn.embedding_bag(keys, self.table, offsets, mode="sum")
        self.looked_up = looked_up.requires_grad_()
        return [self.looked_up.view(-1, len(self.rows) * self.width)]

    def update(self, keys):
        """SGD of the fused table, after backward."""
        keys, offsets, bags = keys
        grad = self.looked_up.grad
        if len(keys) == len(offsets):
            self.table.index_add_(0, keys, grad, alpha=-RATE)
        else:
            grad.mul_(-RATE)
            self.table.scatter_add_(0, keys.unsqueeze(1).expand(-1, self.width), grad.index_select(0, bags))

    def forward(self, dense, vectors):
        x = self.bottom(dense)
        if self.cross:
            return self.top(self.cross(torch.cat([v.to(x.dtype) for v in vectors] + [x], 1))).squeeze(1)
        t = torch.cat([x] + [v.to(x.dtype) for v in vectors], 1).view(len(dense), -1, self.width)
        if self.fused:
            dots = PairwiseDots.apply(t, self.pairs)
        else:
            dots = torch.bmm(t, t.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([x, dots], 1)).squeeze(1)


def zipf_keys(rows, alpha, shape, device="cpu"):
    """P(rank r) ~ (r + 1/2)^-alpha, ranks scattered over the table: the distribution of train_bench."""
    u = torch.rand(shape, dtype=torch.float64, device=device)
    low, high, power = 0.5, rows + 0.5, 1 - alpha
    if abs(power) < 1e-9:
        x = low * (high / low) ** u
    else:
        x = (low ** power + u * (high ** power - low ** power)) ** (1 / power)
    rank = (x - low).long().clamp_(0, rows - 1)
    step = max(1, int(rows * 0.6180339887))
    while math.gcd(step, rows) != 1:
        step += 1
    return rank * step % rows


def draw_keys(model, batches, batch):
    """Keys [B, columns] of each batch. Of a slot's keys the first is drawn, the others always follow it."""
    columns = []
    for rows, hotness in zip(model.rows, model.hotness):
        key = zipf_keys(rows, 1.05, batches * batch)
        columns.append(key.unsqueeze(1))
        if hotness > 1:
            columns.append(torch.randint(rows, (rows, hotness - 1))[key])
    return torch.cat(columns, 1).split(batch)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shape", choices=sorted(SHAPES), default="kaggle")
    ap.add_argument("--spelling", choices=["bags", "fused"], default="fused")
    ap.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--batch", type=int, default=2048)
    ap.add_argument("--seconds", type=float, default=4)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Dlrm(SHAPES[a.shape], a.spelling == "fused")
    batches = 32
    keys = [model.place(k, a.batch) for k in draw_keys(model, batches, a.batch)]
    dense = [torch.rand(a.batch, DENSE) for _ in range(batches)]
    labels = [(torch.rand(a.batch) < 0.25).float() for _ in range(batches)]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    forward = torch.compile(model) if a.compile else model

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        vectors = model.look_up(keys[i])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            z = forward(dense[i], vectors)
        fn.binary_cross_entropy_with_logits(z.float(), labels[i]).backward()
        optimizer.step()
        if model.fused:
            with torch.no_grad():
                model.update(keys[i])

    for i in range(8):
        step(i)
    times, i, start = [], 0, time.perf_counter()
    while time.perf_counter() - start < a.seconds:
        one = time.perf_counter()
        step(i % batches)
        times.append((time.perf_counter() - one) * 1e3)
        i += 1
    times.sort()
    print(json.dumps({"shape": a.shape, "spelling": a.spelling, "precision": a.precision,
                      "compile": a.compile, "threads": a.threads, "torch": torch.__version__,
                      "ms_median": round(times[len(times) // 2], 3), "ms_min": round(times[0], 3),
                      "samples_per_s": round(a.batch * 1e3 * len(times) / sum(times), 1)}))


if __name__ == "__main__":
    main()
