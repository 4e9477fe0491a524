"""The end of a rehearsal: the table for people, the same for programs. Pure."""

from rich.console import Console

from tests.rehearsal.story.plot import Plot
from tests.rehearsal.story.timeline import Timeline, table


def summary(plot: Plot, timeline: Timeline, outcomes: list[dict], plays: list[dict], sums: dict[str, float]) -> dict:
    """{"seed", "short", "seconds", "timeline", "outcomes", "plays", "lost" {steps, seconds, usd}, sums in dollars}."""
    lost = {key: round(sum(row[key] for row in outcomes), 6) for key in ("steps_lost", "seconds_lost", "usd")}
    return {
        "seed": plot.seed, "short": plot.short, "seconds": round(timeline.seconds, 1), "timeline": timeline.rows,
        "outcomes": outcomes, "lost": lost, "plays": plays, **sums,
    }  # fmt: skip


def show(console: Console, told: dict) -> None:
    console.print()
    console.print(table(told["outcomes"]))
    lost = told["lost"]
    console.print(
        f"\n{lost['steps_lost']:,.0f} steps trained twice, {lost['seconds_lost'] / 60:.1f} minutes and "
        f"${lost['usd']:.2f} lost. The bill: ${told['bill_usd']:.2f}; on demand it would have been "
        f"${told['on_demand_usd']:.2f}.\nThe whole story took {told['seconds'] / 60:.1f} minutes. "
        f"Again: ./kit rehearsal{' --short' if told['short'] else ''} --seed {told['seed']}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
