"""Progress bar of training: HTML in a notebook, a line of standard error that redraws itself on
a terminal, otherwise nothing. No dependencies."""
import sys
import time

_WIDTH = 30  # characters of a terminal's bar


class Progress:
    def __init__(self, total):
        self.total, self.done, self.metrics = total, 0, {}
        self._begin = time.monotonic()
        self._handle = _displayed(self)
        self._terminal = self._handle is None and sys.stderr.isatty()

    def update(self, done, metrics=None):
        """done: iterations so far; metrics: what train() yields."""
        self.done = done
        self.metrics.update({("eval " if metrics["event"] == "eval" else "") + key: value
                             for key, value in (metrics or {}).items()
                             if key in ("loss", "auc") and value is not None})
        if self._handle is not None:
            self._handle.update(self)
        elif self._terminal:
            bar = "#" * round(_WIDTH * self._share())
            sys.stderr.write(f"\r[{bar:<{_WIDTH}}] {self._text()}\x1b[K")
            sys.stderr.flush()

    def close(self):
        if self._terminal:
            sys.stderr.write("\n")

    def _share(self):
        return self.done / self.total if self.total > 0 else 1.0

    def _text(self):
        seconds = time.monotonic() - self._begin
        left = seconds / self.done * (self.total - self.done) if self.done else 0
        numbers = "".join(f"  {key} {value:.5f}" for key, value in self.metrics.items())
        return f"{self.done}/{self.total} iterations  {seconds:.0f} s, {left:.0f} s left{numbers}"

    def _repr_html_(self):
        return (f'<div style="font-family: monospace"><progress value="{self.done}" max="{max(1, self.total)}" '
                f'style="width: 20em"></progress> {self._text()}</div>')


def _displayed(progress):
    """The display handle in a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display
    return display(progress, display_id=True)
