#!/usr/bin/env python3
"""Two "nodes" on one machine: network namespaces that reach each other over TCP alone. Needs root, iproute2, Open MPI.

    sudo tests/bench/two_nodes.py golden  --bin build/release/bin [--device cuda]
    sudo tests/bench/two_nodes.py kill    --bin build/release/bin [--device cuda]
    sudo tests/bench/two_nodes.py overlap --bin build/release/bin --rate 400mbit --rounds 5
    sudo tests/bench/two_nodes.py estimate --bin build/release/bin --rate 1gbit --rounds 3

golden   a golden run on 2 nodes x 2 ranks, against its expected losses
kill     a process of the same run is killed (SIGKILL) in the middle: all others have to end within 30 s
         with --device cuda the ranks of both are emulated GPUs, joined by the stand-in NCCL (libhlite_emulated_plugin.so)
overlap  samples/s of a DLRM with solver.enable_overlap off and on, in turn, at equal weights, over a link of --rate
estimate iterations of a DLRM, compared with train --estimate. The machine's rates are those that two
         train_bench measure at the same time, each on a thread, with that model on one rank; the link's is --rate
         less the headers of TCP (1448 of 1538 bytes). Fails when they are further than 25 % apart. The median of all
         intervals counts, and the best is printed next to it: others may use the machine.

Namespaces, links and files are removed at the end.
"""
import argparse
import csv
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NODES = ("hlitea", "hliteb")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sh(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Nodes:
    """The namespaces, from start to end of a with block."""

    def __init__(self, folder, rate, settings=()):
        self.folder, self.rate, self.settings = folder, rate, settings

    def __enter__(self):
        self.__exit__()
        for n, node in enumerate(NODES):
            sh("ip", "netns", "add", node)
            os.makedirs(f"/etc/netns/{node}", exist_ok=True)
            with open(f"/etc/netns/{node}/hosts", "w") as f:
                f.write("127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} {name}\n" for i, name in enumerate(NODES)))
        sh("ip", "link", "add", "v0", "netns", NODES[0], "type", "veth", "peer", "name", "v1", "netns", NODES[1])
        for n, node in enumerate(NODES):
            sh("ip", "-n", node, "addr", "add", f"10.77.0.{n + 1}/24", "dev", f"v{n}")
            sh("ip", "-n", node, "link", "set", "lo", "up")
            sh("ip", "-n", node, "link", "set", f"v{n}", "up")
            if self.rate:
                sh("ip", "netns", "exec", node, "tc", "qdisc", "add", "dev", f"v{n}", "root", "tbf", "rate", self.rate,
                   "burst", "1mbit", "latency", "400ms")
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w") as f:
            # A hostname of its own, else both sides take each other for one machine.
            f.write('#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nh=$1; shift\n'
                    'exec ip netns exec "$h" unshare --uts bash -c \'hostname "$0"; eval "$1"\' "$h" "$*"\n')
        os.chmod(self.agent, 0o755)
        with open(os.path.join(self.folder, "hosts"), "w") as f:
            f.write("".join(f"{node} slots=1\n" for node in NODES))
        return self

    def __exit__(self, *_):
        for node in NODES:
            sh("ip", "netns", "del", node, check=False)
            shutil.rmtree(f"/etc/netns/{node}", ignore_errors=True)

    def start(self, arguments):
        """Runs `arguments` as one process on each node."""
        network = "10.77.0.0/24"
        settings = [word for setting in self.settings for word in ("-x", setting)]
        mpirun = ["mpirun", "--allow-run-as-root", "--hostfile", f"{self.folder}/hosts", "--bind-to", "none", "--mca",
                  "plm_rsh_agent", self.agent, "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", network, "--mca",
                  "oob_tcp_if_include", network, "-np", "2"] + settings
        line = f"cd {self.folder} && " + " ".join(f"'{a}'" for a in mpirun + arguments)
        return subprocess.Popen([self.agent, NODES[0], line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def unpack_golden(folder):
    source = os.path.join(ROOT, "tests/data/golden/dlrm_fused")
    for name in os.listdir(source):
        data = open(os.path.join(source, name), "rb").read()
        if name.endswith(".gz"):
            name, data = name[:-3], gzip.decompress(data)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


def golden_command(args, folder):
    change = "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink_Hierarchical"
    return [os.path.join(os.path.abspath(args.bin), "train"), "--config", f"{folder}/config.json", "--init",
            f"{folder}/init.safetensors", "--device", args.device, "--threads", "2", "--set", "solver.gpu=[[0,1],[0,1]]",
            "--set", change, "--set", "solver.display=1", "--metrics", f"{folder}/metrics.jsonl"]


def emulated_gpus(args):
    """The environment of a process whose node has two emulated GPUs."""
    plugin = os.path.join(os.path.abspath(args.bin), "libhlite_emulated_plugin.so")
    if not os.path.exists(plugin):
        sys.exit(f"--device cuda: expected {plugin}, which target hlite_emulated_plugin builds")
    # The interface that leads to the other node has another name on each.
    return [f"HLITE_CUDA_LIBRARY={plugin}", "HLITE_EMULATED_DEVICES=2", "NCCL_SOCKET_IFNAME=v", "HLITE_COMM_TIMEOUT=30"]


def golden(args, nodes, folder):
    unpack_golden(folder)
    out, _ = (run := nodes.start(golden_command(args, folder))).communicate(timeout=600)
    if run.returncode != 0:
        sys.exit(out)
    events = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    losses = {e["iter"]: e["batch_loss"] for e in events if e["event"] == "train"}
    expected = list(csv.reader(open(f"{folder}/expected_losses.csv")))[1:]
    off = [abs(losses[int(r[0])] - float(r[2])) / float(r[2]) for r in expected]
    what = "emulated GPUs" if args.device == "cuda" else "ranks"
    if args.device == "cuda" and "between them NCCL" not in out:
        sys.exit("expected GPUs joined by NCCL:\n" + out)
    print(f"golden run on 2 nodes x 2 {what} over TCP: {len(off)} losses, first 50 within {max(off[:50]):.2g}, "
          f"all within {max(off):.2g}, mean {sum(off) / len(off):.2g}")
    if max(off[:50]) > 1e-5 or max(off) > 5e-3:
        sys.exit("too far off")


def kill(args, nodes, folder):
    unpack_golden(folder)
    run = nodes.start(golden_command(args, folder) + ["--set", "solver.max_iter=1000000"])
    metrics = f"{folder}/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not os.path.exists(metrics) or os.path.getsize(metrics) < 5000:
        if time.monotonic() > deadline or run.poll() is not None:
            sys.exit("the run did not start: " + (run.communicate()[0] if run.poll() is not None else ""))
        time.sleep(0.1)
    # The process of the second node: its trainer is the one in that namespace.
    pids = [int(p) for p in sh("ip", "netns", "pids", NODES[1]).stdout.split()]
    victims = [p for p in pids if open(f"/proc/{p}/comm").read().strip() == "train"]
    start = time.monotonic()
    os.kill(victims[0], signal.SIGKILL)
    out, _ = run.communicate(timeout=60)
    seconds = time.monotonic() - start
    print(f"process {victims[0]} of {NODES[1]} killed: everything ended {seconds:.1f} s later, exit code {run.returncode}")
    print("  " + "\n  ".join([line for line in out.splitlines() if "rank" in line or "signal" in line][:6]))
    left = [p for node in NODES for p in sh("ip", "netns", "pids", node).stdout.split()]
    if seconds > 30 or run.returncode == 0 or left:
        sys.exit(f"expected all to end within 30 s with an error, {len(left)} processes left")


CAP = 100000  # rows of a table
CONFIG = {
    "solver": {"seed": 7, "lr_policy": "fixed", "display": 1000000, "max_iter": 60, "batchsize": 4096,
               "gpu": [[0], [0]], "snapshot": 1000000, "snapshot_prefix": "./snap_"},
    "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.1}},
    "all_reduce": {"algo": "NCCL", "grouped": False},
}


def write_config(binary, folder, width, bottom, top, **solver):
    """A DLRM on synthetic data in `folder`: layers of these widths below and above the interaction."""
    sh(os.path.join(binary, "criteo_synth"), "--train", "300000", "--test", "0", "--like", "criteo", "--cap", str(CAP),
       "--format", "raw", "--out", f"{folder}/s")
    config = dict(CONFIG)
    config["solver"] = dict(CONFIG["solver"], **solver)
    layers = [
        {"name": "data", "type": "Data", "format": "RawAsync", "source": "s.train.bin", "eval_source": "s.train.bin",
         "check": "None", "slot_size_array": "s.manifest.json", "label": {"top": "label", "label_dim": 1},
         "dense": {"top": "dense", "dense_dim": 13, "aligned": "Auto"},
         "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 26, "max_nnz": 1,
                     "slot_num": 26}],
         "async_param": {"num_threads": 1, "num_batches_per_thread": 4, "io_block_size": 524288, "io_depth": 4,
                         "io_alignment": 512, "shuffle": False}},
        {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
         "sparse_embedding_hparam": {"slot_size_array": "s.manifest.json", "embedding_vec_size": width, "combiner": 0,
                                     "communication_type": "IB_NVLink"}}]

    def stack(below, names, widths):
        for name, n in zip(names, widths):
            layers.append({"name": name, "type": "FusedInnerProduct", "position": "Isolated", "bottom": below,
                           "top": name, "fc_param": {"num_output": n}})
            below = name
        return below

    b = stack("dense", [f"b{i + 1}" for i in range(len(bottom))], bottom)
    layers.append({"name": "inter", "type": "Interaction", "bottom": [b, "emb"], "top": "inter"})
    t = stack("inter", [f"t{i + 1}" for i in range(len(top))], top)
    layers += [{"name": "z", "type": "InnerProduct", "bottom": t, "top": "z", "fc_param": {"num_output": 1}},
               {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]
    config["layers"] = layers
    json.dump(config, open(f"{folder}/config.json", "w"))


def overlap(args, nodes, folder):
    binary = os.path.abspath(args.bin)
    write_config(binary, folder, 64, [1024, 1024, 64], [256, 64])

    def once(on):
        metrics, weights = f"{folder}/m.jsonl", f"{folder}/w.safetensors"
        run = nodes.start([os.path.join(binary, "train"), "--config", f"{folder}/config.json", "--threads", "1", "--quiet",
                           "--set", f"solver.enable_overlap={'true' if on else 'false'}", "--metrics", metrics, "--export",
                           weights])
        out, _ = run.communicate(timeout=600)
        if run.returncode != 0:
            sys.exit(out)
        end = [json.loads(line) for line in open(metrics)][-1]
        return end["samples_per_s"], hashlib.sha256(open(weights, "rb").read()).hexdigest()

    rates, sums = {False: [], True: []}, set()
    for r in range(args.rounds):
        for on in ((False, True) if r % 2 == 0 else (True, False)):
            rate, digest = once(on)
            rates[on].append(rate)
            sums.add(digest)
        print(f"round {r + 1}: overlap off {rates[False][-1]:.0f}, on {rates[True][-1]:.0f} samples/s", flush=True)
    median = lambda v: sorted(v)[len(v) // 2]
    ratios = [b / a for a, b in zip(rates[False], rates[True])]
    print(f"2 nodes x 1 rank over TCP at {args.rate or 'full speed'}: on / off {median(ratios):.2f} "
          f"(rounds {min(ratios):.2f} to {max(ratios):.2f}), weights {'equal' if len(sums) == 1 else 'DIFFERENT'}")
    if len(sums) != 1:
        sys.exit("overlap changes the results")


def bits_per_second(rate):
    for unit, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * factor
    sys.exit(f"--rate: expected such as 100mbit or 1gbit, found '{rate}'")


# train_bench --shape mlperf
MLPERF = {"width": 128, "bottom": [512, 256, 128], "top": [1024, 1024, 512, 256]}


def measured_machine(binary, folder, batch):
    """What two ranks reach that share this machine: train_bench --machine, twice at once, the mean of both."""
    files = [f"{folder}/machine_{i}.json" for i in range(2)]
    runs = [subprocess.Popen([os.path.join(binary, "train_bench"), "--shape", "mlperf", "--cap", str(CAP), "--batch",
                              str(batch), "--threads", "1", "--seconds", "8", "--quiet", "--machine", file],
                             stdout=subprocess.DEVNULL) for file in files]
    if any([run.wait() for run in runs]):
        sys.exit("train_bench failed")
    first, second = (json.load(open(file)) for file in files)
    mean = lambda a, b: {k: mean(a[k], b[k]) if isinstance(a[k], dict) else (a[k] + b[k]) / 2
                         for k in a if not isinstance(a[k], str)}
    return dict(first, **mean(first, second))


def estimate(args, nodes, folder):
    binary = os.path.abspath(args.bin)
    write_config(binary, folder, **MLPERF, display=4, max_iter=24)
    config = f"{folder}/config.json"
    batch = json.load(open(config))["solver"]["batchsize"]
    machine = measured_machine(binary, folder, batch // 2)
    machine["between"] = {"kind": "tcp", "bytes_per_s": bits_per_second(args.rate) / 8 * 1448 / 1538, "seconds": 1e-4}
    json.dump(machine, open(f"{folder}/machine.json", "w"))
    print(f"each of two ranks: {machine['flops']['fp32'] * 1e-9:.0f} GFLOP/s, "
          f"{machine['memory_bytes_per_s'] * 1e-9:.2f} GB/s", flush=True)
    out = sh(os.path.join(binary, "train"), "--config", config, "--estimate", f"2x1 {folder}/machine.json").stdout
    expected = float(out.strip().splitlines()[-1].split()[1])
    times = []
    for r in range(args.rounds):
        run = nodes.start([os.path.join(binary, "train"), "--config", config, "--threads", "1", "--quiet", "--metrics",
                           f"{folder}/m.jsonl", "--report", f"{folder}/report.html"])
        text, _ = run.communicate(timeout=600)
        if run.returncode != 0:
            sys.exit(text)
        events = [json.loads(line) for line in open(f"{folder}/m.jsonl")]
        # The first interval fills the limiter's bucket and grows buffers.
        now = [1e3 * batch / e["samples_per_s"] for e in events if e["event"] == "train"][1:]
        print(f"round {r + 1}: {min(now):.1f} to {max(now):.1f} ms per iteration", flush=True)
        times += now
    times.sort()
    median = times[len(times) // 2]
    print(f"2 nodes x 1 rank over TCP at {args.rate}: estimated {expected:.1f} ms, measured {median:.1f} ms, at best "
          f"{times[0]:.1f}: {expected / median:.2f} of it")
    if args.keep:
        shutil.copytree(folder, args.keep, dirs_exist_ok=True)
        open(f"{args.keep}/estimate.txt", "w").write(out)
    if not 0.75 < expected / median < 1.25:
        sys.exit("further than 25 % apart\n" + out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["golden", "kill", "overlap", "estimate"])
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="golden, kill: cuda: emulated GPUs")
    parser.add_argument("--rate", default="", help="limit of the link between the nodes, as tc writes it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", help="estimate: a folder for its files")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="two_nodes.")
    try:
        settings = emulated_gpus(args) if args.device == "cuda" else ()
        with Nodes(folder, args.rate, settings) as nodes:
            globals()[args.what](args, nodes, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
