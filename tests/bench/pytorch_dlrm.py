#!/usr/bin/env python3
"""A DLRM in plain PyTorch on the shapes of train_bench, for comparison on a CPU.

Spellings: bags   26 EmbeddingBag(sparse=True) and torch.optim, what most people write
           fused  one table updated by index_add_ outside autograd and a hand-written backward of the
                  dot products: the fastest plain PyTorch we know (SGD only)
--precision bf16 runs layers and dot products under autocast; --compile compiles all but the embedding.
Prints one JSON object: ms per iteration (median, min) and samples per second.
"""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as fn

SHAPES = {
    "kaggle": ([512, 256, 64, 16], [512, 256, 1], 16, 1_000_000,
               [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306,
                10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]),
    "mlperf": ([512, 256, 128], [1024, 1024, 512, 256, 1], 128, 200_000,
               [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938,
                155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]),
}
DENSE = 13


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


class Dlrm(nn.Module):
    def __init__(self, shape, fused):
        super().__init__()
        bottom, top, self.width, cap, rows = shape
        self.rows = [min(r, cap) for r in rows]
        self.fused = fused
        n = len(self.rows) + 1
        self.bottom = mlp(DENSE, bottom, True)
        self.top = mlp(self.width + n * (n - 1) // 2, top, False)
        row, column = torch.tril_indices(n, n, -1)
        self.pairs = row * n + column
        tables = [torch.empty(r, self.width).uniform_(-1 / math.sqrt(r), 1 / math.sqrt(r)) for r in self.rows]
        if fused:
            self.table = torch.cat(tables)
        else:
            self.bags = nn.ModuleList(nn.EmbeddingBag.from_pretrained(t, freeze=False, mode="sum", sparse=True)
                                      for t in tables)

    def look_up(self, keys, offsets):
        """Tensors [B, slots * V], in the order of the slots."""
        if self.fused:
            self.looked_up = self.table.index_select(0, keys).requires_grad_()
            return [self.looked_up.view(len(offsets), -1)]
        return [bag(k, offsets) for bag, k in zip(self.bags, keys)]

    def forward(self, dense, vectors):
        x = self.bottom(dense)
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
    keys = np.stack([zipf_keys(r, 1.05, batches * a.batch).numpy() for r in model.rows], 1)
    keys = keys.reshape(batches, a.batch, -1)
    if a.spelling == "fused":
        base = np.concatenate(([0], np.cumsum(model.rows)[:-1]))
        keys = [torch.from_numpy((k + base).reshape(-1)) for k in keys]
    else:
        keys = [[torch.from_numpy(c.copy()) for c in k.T] for k in keys]
    dense = [torch.rand(a.batch, DENSE) for _ in range(batches)]
    labels = [(torch.rand(a.batch) < 0.25).float() for _ in range(batches)]
    offsets = torch.arange(a.batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    forward = torch.compile(model) if a.compile else model

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        vectors = model.look_up(keys[i], offsets)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            z = forward(dense[i], vectors)
        fn.binary_cross_entropy_with_logits(z.float(), labels[i]).backward()
        optimizer.step()
        if model.fused:
            with torch.no_grad():
                model.table.index_add_(0, keys[i], model.looked_up.grad.view(-1, model.width), alpha=-0.01)

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
