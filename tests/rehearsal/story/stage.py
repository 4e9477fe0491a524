"""What the story is played on: the double of AWS, hosts behind its instances, a data set, and those who look."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import layers
import tiny_data
from network import call

from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal.machine import Machine
from tests.rehearsal.machines import Machines, machines
from tests.rehearsal.story import equipment, watch
from tests.rehearsal.story.market import SNAPSHOT, Market
from tests.rehearsal.story.plays import Plays
from tests.rehearsal.story.plot import PICTURES, Plot
from tests.rehearsal.story.reference import Reference
from tests.rehearsal.story.timeline import Timeline
from trainer.data.record_writer import RecordWriter

CHECKED_PICTURES = 64


@dataclass
class Stage:
    plot: Plot
    folder: Path
    layers: list[Path]
    data: Path
    market: Market
    endpoint: str
    fleet: Machines
    plays: Plays
    timeline: Timeline
    port: int  # of the run's page on this side
    prometheus_url: str | None
    outcomes: list[dict] = field(default_factory=list)
    config: str = ""  # what the first machine trained with
    lost: dict | None = None  # the last loss, until the run is where it was: what, step, t
    reference: Reference | None = None

    @property
    def machine(self) -> Machine:
        """The only one there is."""
        [machine] = self.fleet.by_id.values()
        return machine

    def set_market(self) -> None:
        self.fleet.change(self.market.scenario())

    def note(self, what: str, ended: str, steps: int = 0, seconds: float = 0.0, usd: float = 0.0) -> None:
        row = {"what": what, "ended": ended, "steps_lost": steps}
        self.outcomes.append(row | {"seconds_lost": round(seconds, 1), "usd": round(usd, 6)})


@contextmanager
def standing(plot: Plot, folder: Path, timeline: Timeline) -> Iterator[Stage]:
    """All of it, in an empty folder; gone when the block ends, but for the files."""
    market, port = Market(plot), watch.free_port()
    with timeline.doing("making the image that machines are clones of (minutes, once), and a data set"):
        below = layers.with_mxnet()
        booted = [equipment.layer(folder / "equipment", below), *below]
        data = _data_set(folder, plot.damaged_record)
    scenario = Scenario.model_validate(market.scenario())
    try:
        with (
            running(scenario, folder / "calls.jsonl") as endpoint,
            machines(endpoint, booted, folder / "disks", {SNAPSHOT: data}) as fleet,
            watch.prometheus(folder / "prometheus", port) as prometheus_url,
        ):
            plays = Plays(folder, endpoint, timeline)
            yield Stage(plot, folder, booted, data, market, endpoint, fleet, plays, timeline, port, prometheus_url)
    finally:
        for name in ("equipment", "disks", "records"):
            shutil.rmtree(folder / name, ignore_errors=True)


def _data_set(folder: Path, damaged_record: int) -> Path:
    """The image of the snapshot: a file system with the packed pictures, one of which is damaged."""
    records, image = folder / "records", folder / "data.img"
    records.mkdir()
    with RecordWriter(records / "train.rec") as writer:
        for number in range(PICTURES):
            label = number % tiny_data.CLASSES
            picture = tiny_data.picture(label, number)
            writer.write(number, float(label), picture[:200] if number == damaged_record else picture)
        writer.publish()
    tiny_data.write_records(records / "val.rec", CHECKED_PICTURES, seed=1)
    with image.open("wb") as file:
        file.truncate(1 << 30)
    call("mkfs.ext4", "-q", "-d", str(records), str(image))
    return image
