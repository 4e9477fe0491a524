"""`./kit rehearsal`: plays the story, tells it, and ends with 0 when every promise was kept."""

import argparse
import json
import random
import shutil
import sys
from pathlib import Path

from rich.console import Console

import tests.rehearsal  # noqa: F401 (the hosts' modules have their names from here)
from tests.rehearsal.playing import PROJECT
from tests.rehearsal.story import report
from tests.rehearsal.story.plot import plot
from tests.rehearsal.story.run import BrokenPromiseError
from tests.rehearsal.story.timeline import Timeline

FOLDER = PROJECT / ".kit/rehearsal"


def main() -> int:
    import image

    options = _options()
    if reason := image.why_not():
        print(f"kit: the rehearsal cannot be played here: {reason}", file=sys.stderr)
        return 1
    console = Console(stderr=options.json, highlight=False)
    timeline = Timeline(console)
    console.print(f"The rehearsal, seed {options.seed}{', short' if options.short else ''}: files in {options.folder}")
    try:
        told = play(options.seed, options.short, options.folder, timeline)
    except BrokenPromiseError as error:
        console.print(f"\nkit: a promise was not kept: {error}\n     look into {options.folder}", markup=False)
        return 1
    report.show(console, told)
    if options.json:
        print(json.dumps(told, indent=2))
    return 0


def play(seed: int, short: bool, folder: Path, timeline: Timeline) -> dict:
    """The whole story in a folder that is made anew; what `report.summary` says of it, also in its report.json."""
    from tests.rehearsal.story import acts
    from tests.rehearsal.story.stage import standing

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    story = plot(seed, short)
    with standing(story, folder, timeline) as stage:
        for number, life in enumerate(story.lives, 1):
            timeline.chapter(f"Machine {number} of {len(story.lives)}")
            acts.live(stage, life)
        timeline.chapter("The end")
        sums = acts.retire(stage)
        told = report.summary(story, timeline, stage.outcomes, stage.plays.done, sums)
    (folder / "report.json").write_text(json.dumps(told, indent=2) + "\n")
    return told


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./kit rehearsal", description="Plays a run's whole life on this machine, bad days among it (as root)."
    )
    seed = random.SystemRandom().randrange(1000)
    parser.add_argument("--seed", type=int, default=seed, help="the same seed tells the same story (left out: any)")
    parser.add_argument("--short", action="store_true", help="one notice and the end, instead of all bad days")
    parser.add_argument("--json", action="store_true", help="the report as JSON on standard output")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="removed and made anew (left out: .kit/rehearsal)")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
