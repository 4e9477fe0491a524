"""Training in this very process: many starts and stops for the price of their steps."""

from pathlib import Path

from trainer.config import build
from trainer.learn import session
from trainer.observe import events
from trainer.run import Run
from trainer.spot.stop import StopRequest

FILES = ("weights.params", "optimizer.params", "statistics.params")
TIMES = ("train_seconds", "wall_seconds")


def configuration(recipe: dict, **changes):
    values = {key: value for key, value in (recipe | changes).items() if value is not None}
    return build(values, source="test", folder=Path("/"))


def train(recipe: dict, *, until_step=None, stop=None, report=None, **changes) -> str:
    """One start, with events in the run's events.jsonl; `report` hears them, too."""
    config = configuration(recipe, **changes)
    run = Run(config.run_directory)
    run.directory.mkdir(parents=True, exist_ok=True)
    log = events.event_writer(run.events)

    def both(kind, **fields):
        log(kind, **fields)
        if report:
            report(kind, **fields)

    return session.train(config, run, both, StopRequest() if stop is None else stop, until_step=until_step)


def of_kind(run: Run, kind: str) -> list[dict]:
    return [event for event in events.read(run.events) if event["kind"] == kind]


class StopAtLook(StopRequest):
    """Somebody asks at the n-th time that training looks, from when `counting` is true."""

    def __init__(self, looks: int, counting: bool = True):
        super().__init__()
        self._looks, self.counting = looks, counting

    def __bool__(self) -> bool:
        self._looks -= self.counting
        if self._looks == 0:
            self.ask("signal")
        return super().__bool__()
