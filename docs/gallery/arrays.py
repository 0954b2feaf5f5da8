"""Training on arrays: no files, samples come from wherever the caller has them."""
import clicks
import hugectr_lite as hl

label, dense, keys = clicks.draw(20000, seed=1)
new_label, new_dense, new_keys = clicks.draw(5000, seed=2)

trainer = hl.Trainer(clicks.config(), arrays=True)
for epoch in range(4):
    for begin in range(0, len(label), 512):
        batch = slice(begin, begin + 512)
        trainer.step(label[batch], dense[batch], keys[batch])
    print(f"pass {epoch + 1}: AUC of new samples {hl.auc(new_label, trainer.predict(new_dense, new_keys)):.4f}")
