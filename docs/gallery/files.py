"""A run over files, as `train` does it: records, metrics as they come, a checkpoint, and going on from it."""
import os
import tempfile

import clicks
import hugectr_lite as hl
import numpy as np

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, n, seed in (("train.bin", 20000, 1), ("eval.bin", 5000, 2)):
        label, dense, keys = clicks.draw(n, seed)
        numbers = np.concatenate([label[:, None], dense], 1).astype("<f4")
        np.concatenate([numbers.view("<u4"), keys.astype("<u4")], 1).tofile(name)

    config = clicks.config(eval_interval=100, batchsize_eval=1000, eval_batches=5)
    trainer = hl.Trainer(config)
    for metrics in trainer.train(progress=True):
        if metrics["event"] == "eval":
            print(f"iteration {metrics['iter']}: AUC {metrics['auc']:.4f}")
    trainer.save("checkpoint")

    more = hl.Trainer(config, set={"solver.max_iter": 300}, resume="checkpoint")
    for metrics in more.train():
        if metrics["event"] == "eval":
            print(f"iteration {metrics['iter']}: AUC {metrics['auc']:.4f}")
    os.chdir("/")
