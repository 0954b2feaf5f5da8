"""Looking into a table, and starting from vectors of one's own. Weights are the model's own memory: no copy is made."""
import clicks
import hugectr_lite as hl
import numpy as np

label, dense, keys = clicks.draw(20000, seed=1)
trainer = hl.Trainer(clicks.config(), arrays=True)

# Items begin with vectors that say which kind they are, by writing into the table.
items = trainer.weights["emb.table_1"]
items[:] *= 0.1
items[np.arange(clicks.ITEMS), np.arange(clicks.ITEMS) % clicks.KINDS] += 0.5
trainer.weights_changed()

for begin in range(0, len(label), 512):
    batch = slice(begin, begin + 512)
    trainer.step(label[batch], dense[batch], keys[batch])

unit = items / np.linalg.norm(items, axis=1, keepdims=True)
near = np.argsort(-(unit @ unit.T), 1)[:, 1:6]
for item in range(3):
    print(f"item {item}, kind {item % clicks.KINDS}: nearest {near[item].tolist()}")
print(f"nearest items of the same kind: {(near % clicks.KINDS == np.arange(clicks.ITEMS)[:, None] % clicks.KINDS).mean():.2f}")
