"""A tuning as a person reads it: each probe when it is done, and at the end what was found and why."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from trainer.observe.words import duration
from trainer.tune.figures import Figure, Probe, Prober

_NAMES = {
    "training": "training", "proof": "proof, with validation and checkpoint", "network": "network alone",
    "input": "input alone", "disk": "disk alone", "float32": "network alone in float32",
}  # fmt: skip


@contextmanager
def tuning_progress(prober: Prober, budget_seconds: float) -> Iterator[Callable[[Probe, Figure | None], None]]:
    """`told(probe, figure)` for the search: a line for each probe, and a bar of the time on a terminal; on stderr."""
    if not sys.stderr.isatty():
        yield lambda probe, figure: print(describe(probe, figure, prober), file=sys.stderr, flush=True)
        return
    with Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("tuning", total=budget_seconds)

        def told(probe: Probe, figure: Figure | None) -> None:
            left = prober.seconds_left()
            bar.console.print(describe(probe, figure, prober), highlight=False, markup=False)
            bar.update(task, completed=budget_seconds - left, description=f"at most {duration(left)} left")

        yield told


def describe(probe: Probe, figure: Figure | None, prober: Prober) -> str:
    """One line for a probe."""
    parts = [_NAMES[probe.what]]
    if probe.batch:
        parts.append(f"batch {probe.batch:,}")
    if probe.threads:
        parts.append(f"{probe.threads} thread{'s' * (probe.threads > 1)}")
    result = f"{figure.rate:,.1f} images/s (+-{figure.confidence_share:.1%})" if figure else "does not fit"
    return f"{', '.join(parts)}: {result}; at most {duration(max(0.0, prober.seconds_left()))} left"


def show_tuning(found: dict) -> None:
    """What was found, on stdout."""
    start, credit = found["start"], found["credit"]
    print(
        f"from batch {start['batch_size']:,}, {start['decode_threads']} threads: "
        f"{start['images_per_second']:,.1f} images/s"
    )
    for knob, name in (("decode_threads", "decode threads"), ("batch_size", "batch"), ("precision", "precision")):
        if knob in credit:
            print(f"  {name}: x{credit[knob]:.2f}")
    share = found["attained_share"]
    of_roof = "" if share is None else f", {share:.0%} of the roof"
    print(
        f"to batch {found['batch_size']:,}, {found['decode_threads']} threads: {found['images_per_second']:,.1f} "
        f"images/s{of_roof}"
    )
    print(f"  a larger batch alone: x{found['batch_alone']:.2f}")
    roofs = ", ".join(f"{name} {rate:,.1f}" for name, rate in sorted(found["roofs"].items(), key=lambda row: row[1]))
    print(f"roofs in images/s: {roofs}")
    if found["largest_batch"] is not None:
        print(f"largest batch that fits {found['largest_batch']:,}; as fast from {found['sufficient_batch']:,} on")
    seconds = found.get("simulated_seconds", found.get("seconds"))
    print(f"{found['probes']} probes in {duration(seconds)}; trying everything: {duration(found['grid_seconds'])}")
    for note in [*found["notes"], *found.get("warnings", {}).values()]:
        print(f"note: {note}")
    if found["noisy"]:
        print(f"note: measurements differ much; the result is sure to +-{found['confidence_share']:.1%} only")
    if found.get("kept"):
        print("note: measured before on a host of this kind; --again measures anew")
