"""The same start with several learning rates, side by side."""
import clicks
import hugectr_lite as hl

label, dense, keys = clicks.draw(20000, seed=1)
new_label, new_dense, new_keys = clicks.draw(5000, seed=2)

print("rate     loss    AUC of new samples")
for rate in (0.001, 0.01, 0.1, 1.0):
    trainer = hl.Trainer(clicks.config(), arrays=True, set={"optimizer.adam_hparam.learning_rate": rate})
    for step in range(80):
        batch = slice(512 * step % 19456, 512 * step % 19456 + 512)
        trainer.step(label[batch], dense[batch], keys[batch])
    print(f"{rate:<8} {trainer.batch_loss:.4f}  {hl.auc(new_label, trainer.predict(new_dense, new_keys)):.4f}")
