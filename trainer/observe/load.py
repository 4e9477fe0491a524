"""A run's samples for its report, read once, in bounded memory: the machine over time, and the doctor's verdicts."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from trainer.observe import events
from trainer.observe.diagnose import diagnose
from trainer.observe.history import is_number
from trainer.observe.own_verdict import LEAST_SAMPLES, verdict_of
from trainer.observe.ranges import CPU, gpus_of, machine_row, machine_view
from trainer.observe.rollup import Rollup
from trainer.observe.verdicts import in_words
from trainer.run import Run

_BUCKETS = 1000
# A verdict for each quarter of an hour, by its last two minutes: more of them would take long, and say the same.
_VERDICT_SECONDS = 900.0
_VERDICT_SAMPLES = 120
_GAP_SECONDS = 60.0


@dataclass
class Load:
    """`view`: see `machine_view`. `verdicts`, oldest first: {since, until (unix seconds)} and what `in_words` gives."""

    view: dict
    verdicts: list[dict] = field(default_factory=list)
    memory_mb: float = 0.0
    """Of the largest device."""
    doctor: dict | None = None
    """`verdict_of` the run."""

    def rows(self) -> list[dict]:
        """As samples would tell it, one a bucket."""
        view = self.view
        return [
            {
                "t": t, "cpu": {state: view[state][row] for state in CPU}, "disk": {"read_mb_s": view["read"][row]},
                "host_memory": {"available_mb": view["available"][row]},
            }
            for row, t in enumerate(view["t"])
        ]  # fmt: skip


def load_of(run: Run) -> Load:
    """By the run's samples; in a directory that was fetched without them, as its last report kept it (`load.json`)."""
    if run.samples.exists():
        return replace(read_load(events.read(run.samples)), doctor=verdict_of(run))
    return _kept(run)


def doctor_of(run: Run) -> dict | None:
    """`verdict_of` the run; where its samples are not, as its last report kept it."""
    return verdict_of(run) if run.samples.exists() else _kept(run).doctor


def _kept(run: Run) -> Load:
    try:
        return Load(**json.loads(run.load.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return read_load([])


def read_load(samples: Iterable[dict]) -> Load:
    rollup, verdicts, gpus, memory, recent = Rollup(1, _BUCKETS, grows=True), [], 0, 0.0, []
    for sample in samples:
        if not is_number(sample.get("t")):
            continue
        if recent and _ends(recent, sample):
            _judge(recent, verdicts)
            recent = []
        recent.append(sample)
        rollup.add(sample["t"], machine_row(sample))
        gpus = max(gpus, len(gpus_of(sample)))
        memory = max([memory, *(gpu["mem_total_mb"] for gpu in gpus_of(sample) if is_number(gpu.get("mem_total_mb")))])
    _judge(recent, verdicts)
    return Load(machine_view(rollup, rollup.places(), gpus), verdicts, memory)


def _ends(recent: list[dict], sample: dict) -> bool:
    """A stretch of one setting ends with it, with a gap, and after its time."""
    first, last = recent[0], recent[-1]
    changed = any(last.get(key) != sample.get(key) for key in ("decode_threads", "batch_size"))
    return changed or sample["t"] - last["t"] > _GAP_SECONDS or sample["t"] - first["t"] >= _VERDICT_SECONDS


def _judge(recent: list[dict], verdicts: list[dict]) -> None:
    """Adds the verdict on a stretch; one that says the same as the one before continues it."""
    if len(recent) < LEAST_SAMPLES:
        return
    found = diagnose(recent[-_VERDICT_SAMPLES:])
    if found.images_per_second is None:
        return
    now = {"since": recent[0]["t"], "until": recent[-1]["t"], **in_words(found)}
    if verdicts and verdicts[-1]["verdict"] == now["verdict"] and now["since"] - verdicts[-1]["until"] <= _GAP_SECONDS:
        now["since"] = verdicts.pop()["since"]
    verdicts.append(now)
