"""What the network learnt, by epoch, across all starts: a start that resumes undoes what came after its checkpoint."""

from collections import Counter

from trainer.observe.history import History, add, is_number, is_usable, resumed_step
from trainer.observe.marks import marks
from trainer.observe.rollup import Rollup, known

_POINTS = 1000
# More steps than a message on a slow link comes late.
_TAIL = 16
# Of each kind: a run that crashes each minute for a week has more of them than anybody looks at.
_KEPT_EVENTS = 2000
# A configuration or a matrix each would be the most of what is kept.
_LARGE = ("confusion", "config", "classes")
# Each may come without end, and none is shown.
_PASSED_OVER = ("bad_record", "checkpoint_failed")


class Learning:
    """The curves of loss and learning rate, and the newest other events of a run, in bounded memory."""

    def __init__(self):
        self.history = History()
        self._counts: Counter[str] = Counter()
        self._curves = Rollup(1e-4, _POINTS, grows=True)
        self.revision = 0
        """Another number when more has changed than the ends of curves."""

    def read(self, event: dict) -> None:
        if not is_usable(event) or event["kind"] in _PASSED_OVER:
            return
        event = {key: value for key, value in event.items() if key not in _LARGE}
        add(self.history, event)
        if event["kind"] == "step":
            self._read_step(event)
            return
        if event["kind"] == "start":
            self._curves.cut(self.history.epoch_at(resumed_step(event)) or 0)
        self._counts[event["kind"]] += 1
        history = self.history
        for kept in (history.checkpoints, history.starts, history.interruptions, history.stops):
            del kept[:-_KEPT_EVENTS]
        self.revision += 1

    @property
    def step(self) -> dict:
        """Where the last start is: its newest step event, at least as far as its stop; before, where it went on.

        `kind` is "start" before its first step. {} when there is no start.
        """
        start, newest = self.history.start, (self.history.steps or [{}])[-1]
        if newest.get("t", 0) < start.get("t", 0) or not newest:
            newest = start and {key: start.get(key) for key in ("kind", "t", "steps_total", "epochs")}
        reached = max(_count(newest) or resumed_step(start), _count(self.history.stop or {}))
        if not newest or reached == _count(newest):
            return newest
        return newest | {"step": reached, "epoch": _rounded(self.history.epoch_at(reached))}

    @property
    def width(self) -> float:
        return self._curves.width

    def _read_step(self, event: dict) -> None:
        epoch = known(event.get("epoch"))
        if epoch is not None:
            self._curves.add(epoch, [known(event.get("loss")), known(event.get("learning_rate"))])
        del self.history.steps[:-1]
        self.history.superseded_steps.clear()

    def curves(self, tail: bool = False) -> dict:
        """{epoch, loss, loss_low, loss_high, rate}."""
        keys = self._curves.places(_TAIL if tail else None)
        column = self._curves.column
        return {
            "width": self._curves.width, "epoch": [round(key * self._curves.width, 5) for key in keys],
            "loss": column("mean", 0, keys, 4), "loss_low": column("low", 0, keys, 4),
            "loss_high": column("high", 0, keys, 4), "rate": column("mean", 1, keys, 6),
        }  # fmt: skip

    def validations(self) -> list[dict]:
        """{epoch, step, top1, top5, loss} of each that is in force."""
        keys = ("epoch", "step", "top1", "top5", "loss")
        return [{key: known(event.get(key)) for key in keys} for event in self.history.validations]

    def result(self) -> dict:
        """{top1, top5 (of the last validation), best_top1, checkpoint, starts, interruptions (how many)}.

        checkpoint: {t, step, seconds, bytes} of the newest, None without one.
        """
        history = self.history
        last, saved = (history.validations or [{}])[-1], (history.checkpoints or [None])[-1]
        top1 = [top1 for event in history.validations if (top1 := known(event.get("top1"))) is not None]
        return {
            "top1": known(last.get("top1")), "top5": known(last.get("top5")), "best_top1": max(top1, default=None),
            "checkpoint": saved and {key: saved.get(key) for key in ("t", "step", "seconds", "bytes")},
            "starts": self._counts["start"], "interruptions": self._counts["interrupted"],
        }  # fmt: skip

    def marks(self) -> dict:
        """{time (x: unix seconds), epoch} of checkpoints, resumes and stops."""
        history = self.history
        return {
            "time": marks(history, lambda event, _: event["t"]),
            "epoch": marks(history, lambda event, step: history.epoch_at(step, event["t"])),
        }


def _count(event: dict) -> int:
    """Its step; 0 when it tells none."""
    return event["step"] if is_number(event.get("step")) else 0


def _rounded(epoch: float | None) -> float | None:
    return None if epoch is None else round(epoch, 4)
