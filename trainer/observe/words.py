"""Numbers and events in the words of a report."""

from datetime import UTC, datetime

# State of trainer.observe.summary: what to say, and which sign goes with it.
STATES = {
    "finished": ("Finished", "✓"),
    "stopped": ("Stopped on request", "⏸"),
    "failed": ("Failed", "✕"),
    "running": ("Running", "▶"),
    "interrupted": ("Interrupted", "!"),
    "not started": ("Not started", "–"),
}
MARKS = {"checkpoint": "checkpoint", "resume": "resumed", "stop": "stopped", "interrupted": "interrupted"}
_REASONS = {
    "finished": "all epochs done",
    "signal": "a signal asked for it",
    "request": "somebody asked for it",
    "notice": "the machine was about to be taken away",
    "until_step": "the step that was asked for is done",
    "non_finite_loss": "the loss was not finite",
    "error": "an error",
}


def reason(stop_reason: str | None) -> str:
    return _REASONS.get(stop_reason, str(stop_reason))


def percent(share: float | None, digits: int = 2) -> str:
    """With a narrow space that no line breaks at."""
    return "–" if share is None else f"{100 * share:.{digits}f}\u202f%"


def number(value: float | None) -> str:
    """Whole numbers with separators, others with four digits that count; – when unknown."""
    if value is None:
        return "–"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def dollars(usd: float | None) -> str:
    return "–" if usd is None else f"${usd:,.2f}"


def duration(seconds: float | None) -> str:
    """The two largest units of: h, min, s."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def describe(chart: dict) -> str:
    """A chart for those who cannot see it."""
    lines = [_describe_series(line["name"], [y for y in line["y"] if y is not None]) for line in chart["series"]]
    return f"{chart['title']} ({chart['unit']}) over {chart['x_title'].lower()}. " + " ".join(filter(None, lines))


def _describe_series(name: str, known: list[float]) -> str:
    if not known:
        return ""
    return (
        f"{name}: from {number(known[0])} to {number(known[-1])}, "
        f"lowest {number(min(known))}, highest {number(max(known))}."
    )
