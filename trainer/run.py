"""The run directory: the only thing that training shares with whatever looks at it."""

from dataclasses import dataclass
from pathlib import Path

from trainer.errors import ConfigError

PROJECT = Path(__file__).resolve().parent.parent
RUNS = PROJECT / "run"


@dataclass(frozen=True)
class Run:
    """Names of everything in one run's directory."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def config(self) -> Path:
        return self.directory / "config.toml"

    @property
    def events(self) -> Path:
        return self.directory / "events.jsonl"

    @property
    def samples(self) -> Path:
        return self.directory / "samples.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    @property
    def latest(self) -> Path:
        return self.directory / "LATEST"

    @property
    def tuning(self) -> Path:
        """What `tune` found for it."""
        return self.directory / "tuning.json"

    @property
    def price(self) -> Path:
        """What the rented machine costs; only there when it is rented."""
        return self.directory / "price.json"

    @property
    def bill(self) -> Path:
        """What the run has cost in the end; only there when it was fetched."""
        return self.directory / "bill.json"

    @property
    def lease(self) -> Path:
        return self.directory / "lease.json"

    @property
    def crash(self) -> Path:
        """Where the trainer's stack goes when a fatal signal ends it."""
        return self.directory / "crash.txt"

    @property
    def crash_before(self) -> Path:
        """The stack of an earlier trainer's crash."""
        return self.directory / "crash-before.txt"

    @property
    def mirror_state(self) -> Path:
        """How the mirror of checkpoints goes; written by the mirror process."""
        return self.directory / "mirror.json"

    @property
    def mirror_lock(self) -> Path:
        """Held by the mirror process."""
        return self.directory / "mirror.lock"

    @property
    def stop_asked(self) -> Path:
        """Names the process that was last asked to stop."""
        return self.directory / "stop-asked"

    @property
    def model_prefix(self) -> Path:
        """MXNet adds `-symbol.json` and `-0000.params` to it."""
        return self.directory / "model"

    @property
    def model_card(self) -> Path:
        return self.directory / "model.json"

    @property
    def report_json(self) -> Path:
        return self.directory / "report.json"

    @property
    def load(self) -> Path:
        """What the report shows of the samples: small enough to be fetched where they are not."""
        return self.directory / "load.json"

    @property
    def report_html(self) -> Path:
        return self.directory / "report.html"


def find(name_or_directory: str) -> Run:
    """The run with that name or directory; ConfigError when there is none."""
    places = [Path(name_or_directory), Path("run") / name_or_directory, RUNS / name_or_directory]
    for place in places:
        if (place / "config.toml").is_file():
            return Run(place.resolve())
    looked = ", ".join(dict.fromkeys(str(place.resolve()) for place in places))
    raise ConfigError(
        f"--run must be the name or the directory of a run (a folder with a config.toml), "
        f"got {name_or_directory!r}; looked in {looked}"
    )
