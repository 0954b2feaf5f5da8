#!/usr/bin/env python3
"""The DLRMs of train_bench in PyTorch on one GPU: the fastest of several spellings is what to compare with.

Spellings of the embedding (plain SGD in all of them):
  bags    26 EmbeddingBag(sparse=True) and torch.optim, what most people write
  fused   one table, gathered and updated by index_add_ outside autograd
  split   the same, but tables of at most 50,000 rows, whose rows repeat within a batch, get dense gradients
The rest: inputs padded to multiples of 8, autocast to bf16 or fp32 with TF32, a hand-written backward of the dot
products, with and without torch.compile; fused and split run as one CUDA graph an iteration. Batches are on the
device already, drawn there with the skew of train_bench.

Prints one JSON object a line for each variant, as it is done: samples per second. --device cpu is for trying it out.
"""
import argparse
import json
import sys
import time
import traceback

import torch
import torch.nn as nn
import torch.nn.functional as fn

from pytorch_dlrm import DENSE, SHAPES, mlp, zipf_keys

RATE = 0.01
SMALL = 50_000
BATCHES = 8


def padded(n):
    return (n + 7) // 8 * 8


class PairwiseDots(torch.autograd.Function):
    """Dot products of pairs of vectors. lower: places of the pairs in [n, n], and one that gives 0 for each column of
    padding; mirror: for each place of [n, n] the column of the pair, or one more, which is 0."""
    @staticmethod
    def forward(ctx, vectors, lower, mirror):
        ctx.save_for_backward(vectors, mirror)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, lower)

    @staticmethod
    def backward(ctx, grad):
        vectors, mirror = ctx.saved_tensors
        batch, n, _ = vectors.shape
        full = torch.cat([grad, grad.new_zeros(batch, 1)], 1).index_select(1, mirror).view(batch, n, n)
        return torch.bmm(full, vectors), None, None


class DenseNetwork(nn.Module):
    """Everything but the embedding."""
    def __init__(self, bottom, top, width, slots):
        super().__init__()
        self.filling = padded(slots + 1) - slots - 1
        n = slots + 1 + self.filling
        row, column = torch.tril_indices(slots + 1, slots + 1, -1)
        pairs = len(row)
        self.columns = padded(width + pairs) - width
        # Vector n - 1 is a filling, and so is every dot product with it: 0. Where there is none, no column is added.
        lower = torch.full((self.columns,), n * n - 1)
        lower[:pairs] = row * n + column
        if not self.filling:
            lower, self.columns = lower[:pairs], pairs
        mirror = torch.full((n, n), self.columns)
        mirror[row, column] = mirror[column, row] = torch.arange(pairs)
        self.register_buffer("lower", lower)
        self.register_buffer("mirror", mirror.flatten())
        self.bottom = mlp(padded(DENSE), bottom, True)
        self.top = mlp(width + self.columns, top, False)

    def forward(self, dense, vectors, labels):
        x = self.bottom(dense)
        parts = [x.unsqueeze(1)] + [v.to(x.dtype) for v in vectors]
        if self.filling:
            parts.append(x.new_zeros(len(x), self.filling, x.shape[1]))
        dots = PairwiseDots.apply(torch.cat(parts, 1), self.lower, self.mirror)
        z = self.top(torch.cat([x, dots], 1)).squeeze(1)
        return fn.binary_cross_entropy_with_logits(z.float(), labels)


class Embedding:
    """The 26 tables in one of the spellings: look_up(keys) gives tensors [B, slots, V], update() follows backward."""
    def __init__(self, spelling, table, rows, dtype):
        self.spelling, self.table, self.dtype, self.width = spelling, table, dtype, table.shape[1]
        first = [0]
        for r in rows:
            first.append(first[-1] + r)
        self.parameters, self.leaf = [], None
        if spelling == "bags":
            self.bags = [nn.EmbeddingBag.from_pretrained(table[a:b], freeze=False, mode="sum", sparse=True)
                         for a, b in zip(first, first[1:])]
            self.parameters = [bag.weight for bag in self.bags]
            return
        small = [s for s, r in enumerate(rows) if spelling == "split" and r <= SMALL]
        large = [s for s in range(len(rows)) if s not in small]
        self.large, self.large_first = large, table.new_tensor([first[s] for s in large], dtype=torch.long)
        self.small = small
        if small:
            start, at = [], 0
            for s in small:
                start.append(at)
                at += rows[s]
            self.small_first = table.new_tensor(start, dtype=torch.long)
            self.small_table = nn.Parameter(torch.cat([table[first[s]:first[s + 1]] for s in small]))
            self.parameters = [self.small_table]

    def place(self, keys):
        """Keys [B, slots] as look_up() wants them: a list of tensors."""
        if self.spelling == "bags":
            return [k.contiguous() for k in keys.t()]
        lists = [keys[:, self.large] + self.large_first]
        if self.small:
            lists.append(keys[:, self.small] + self.small_first)
        return [k.contiguous() for k in lists]

    def look_up(self, keys):
        if self.spelling == "bags":
            return [bag(k.unsqueeze(1)).unsqueeze(1) for bag, k in zip(self.bags, keys)]
        self.keys = keys[0].view(-1)
        shape = (*keys[0].shape, self.width)
        self.leaf = self.table.index_select(0, self.keys).to(self.dtype).view(shape).requires_grad_()
        vectors = [self.leaf]
        if self.small:
            vectors.append(fn.embedding(keys[1], self.small_table))
        return vectors

    def update(self):
        if self.leaf is not None:
            grad = self.leaf.grad.view(-1, self.width).to(self.table.dtype)
            self.table.index_add_(0, self.keys, grad, alpha=-RATE)


class Bench:
    def __init__(self, a):
        self.a = a
        bottom, top, self.width, _, rows = SHAPES[a.shape][:5]
        self.shape = (bottom, top, self.width, len(rows))
        self.rows = [min(r, a.cap) for r in rows]
        self.cuda = a.device.startswith("cuda")
        self.table = torch.empty(sum(self.rows), self.width, device=a.device).uniform_(-0.01, 0.01)
        self.dense = [torch.zeros(a.batch, padded(DENSE), device=a.device) for _ in range(BATCHES)]
        for d in self.dense:
            d[:, :DENSE].uniform_()
        self.labels = [(torch.rand(a.batch, device=a.device) < 0.5).float() for _ in range(BATCHES)]

    def draw(self, alpha):
        self.keys = [torch.stack([zipf_keys(r, alpha, self.a.batch, self.a.device) for r in self.rows], 1)
                     for _ in range(BATCHES)]

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def network(self, compiled):
        torch.manual_seed(1)
        network = DenseNetwork(*self.shape).to(self.a.device)
        return network, torch.compile(network, dynamic=False) if compiled else network

    def measure(self, spelling, precision, network, forward):
        half = torch.bfloat16 if precision == "bf16" else torch.float32
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        embedding = Embedding(spelling, self.table, self.rows, half)
        sparse = torch.optim.SGD(embedding.parameters, lr=RATE) if spelling == "bags" else None
        dense = list(network.parameters()) + (embedding.parameters if sparse is None else [])
        placed = [embedding.place(k) for k in self.keys]
        static = [self.dense[0].clone(), self.labels[0].clone()] + [k.clone() for k in placed[0]]

        def step():
            for p in dense:
                p.grad = None
            if sparse:
                sparse.zero_grad(set_to_none=True)
            device = "cuda" if self.cuda else "cpu"
            with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
                loss = forward(static[0], embedding.look_up(static[2:]), static[1])
            loss.backward()
            with torch.no_grad():
                embedding.update()
                torch._foreach_add_(dense, [p.grad for p in dense], alpha=-RATE)  # SGD in one go
            if sparse:
                sparse.step()
            return loss.detach()

        def load(i):
            for to, value in zip(static, [self.dense[i], self.labels[i]] + placed[i]):
                to.copy_(value)

        run, graph = step, None
        if self.cuda:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(4):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            if spelling != "bags":  # sparse gradients are put together by sizes that the host must know
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = step()

                def run():
                    graph.replay()
                    return loss
        for i in range(3):
            load(i % BATCHES)
            run()
        self.synchronize()
        n, start = 0, time.perf_counter()
        while True:
            for _ in range(BATCHES):
                load(n % BATCHES)
                value = run()
                n += 1
            self.synchronize()
            seconds = time.perf_counter() - start
            if seconds >= self.a.seconds:
                break
        return {"samples_per_s": round(self.a.batch * n / seconds), "ms": round(1e3 * seconds / n, 4),
                "graph": graph is not None, "loss": round(value.item(), 5)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--shape", choices=[name for name, shape in SHAPES.items() if not shape.cross], default="mlperf")
    ap.add_argument("--cap", type=int, default=10_000_000, help="most rows of a table")
    ap.add_argument("--batch", type=int, default=65536)
    ap.add_argument("--precisions", default="bf16,tf32")
    ap.add_argument("--alphas", default="1.05,0")
    ap.add_argument("--spellings", default="fused,split,bags")
    ap.add_argument("--seconds", type=float, default=1, help="of each variant")
    ap.add_argument("--budget", type=float, default=150, help="seconds after which no further variant is begun")
    a = ap.parse_args()
    begun = time.perf_counter()
    bench = Bench(a)
    name = torch.cuda.get_device_name() if bench.cuda else "cpu"
    # Without compilation first: it may take the greater part of the time limit.
    for compiled in (False, True):
        if compiled and not (bench.cuda and hasattr(torch, "compile")):
            continue
        for precision in a.precisions.split(","):
            network, forward = bench.network(compiled)
            for alpha in map(float, a.alphas.split(",")):
                torch.manual_seed(2)
                bench.draw(alpha)
                for spelling in a.spellings.split(","):
                    if compiled and spelling == "bags":
                        continue  # its own time is what counts
                    if time.perf_counter() - begun > a.budget:
                        return
                    about = {"gpu": name, "torch": torch.__version__, "shape": a.shape, "cap": a.cap, "batch": a.batch,
                             "alpha": alpha, "precision": precision, "spelling": spelling, "compiled": compiled}
                    try:
                        about.update(bench.measure(spelling, precision, network, forward))
                    except Exception as error:  # one spelling that fails leaves the others
                        traceback.print_exc(file=sys.stderr)
                        about["error"] = f"{type(error).__name__}: {error}"[:300]
                    print(json.dumps(about), flush=True)
                    if bench.cuda:
                        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
