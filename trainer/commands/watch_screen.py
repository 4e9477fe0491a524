"""What `watch` shows of a message of the live page (trainer.observe.live): a screen of 80 x 24 or more, or words."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainer.observe.words import STATES, dollars, duration, moment, number, percent

_COLOURS = {"running": "cyan", "finished": "green", "failed": "red", "interrupted": "red", "stopped": "yellow"}
_OLD_SECONDS = 10.0
_BLOCKS = " ▏▎▍▌▋▊▉█"


def facts(name: str, seen: dict) -> dict[str, str]:
    """The essentials in words."""
    found, saved = seen["doctor"] or {}, seen["checkpoint"]
    told = {
        "run": name,
        "state": STATES[seen["state"]][0],
        "epoch": f"{number(seen['epoch'])} of {number(seen['epochs'])}",
        "step": f"{number(seen['step'])} of {number(seen['steps_total'])}{_silence(seen)}",
        "time left": duration(seen["seconds_left"]),
        "images/s": _speed(seen),
        "limit": found.get("title", "not known yet"),
        "loss": number(seen["loss"]),
        "top-1": f"{percent(seen['top1'])} (best {percent(seen['best_top1'])})",
        "checkpoint": f"step {number(saved['step'])}, {duration(seen['t'] - saved['t'])} ago" if saved else "none yet",
        "starts": f"{seen['starts']}, {seen['interruptions']} interruptions",
    }
    return told | ({"cost": _cost(seen["costs"])} if seen["costs"] else {})


def one_line(name: str, seen: dict) -> str:
    """For a log."""
    told, limits = facts(name, seen), _warnings(seen)
    limits.append(told["limit"])
    return (
        f"{name}: {told['state'].lower()}, epoch {told['epoch']}, images/s {told['images/s']}, loss {told['loss']}, "
        f"{told['time left']} left, {', '.join(limits)}" + (f", {told['cost']}" if "cost" in told else "")
    )


def screen(name: str, seen: dict, width: int, height: int) -> Group:
    """All of it, for a terminal of this size."""
    if "state" not in seen:
        return Group(Text(f"{name}: no connection: {seen['lost']}; trying again", style="red"))
    told = _told(name, seen)
    room = height - len(told) - 6  # head, spaces, and the last line
    return Group(*_head(name, seen, width), _table(told), Text(""), *_gpus(seen["gpus"], width, max(room, 1)),
                 Text("q ends this; training goes on", style="dim"))  # fmt: skip


def _head(name: str, seen: dict, width: int) -> list[Text]:
    style = f"bold {_COLOURS.get(seen['state'], 'white')}"
    state = Text.assemble((name, "bold"), "  ", (STATES[seen["state"]][0], style))
    for warning in _warnings(seen):
        state.append(f"  {warning}", style="bold red")
    share = (seen["epoch"] or 0) / seen["epochs"] if seen["epochs"] else 0.0
    ends = seen["seconds_left"] and seen["state"] == "running"
    end = f"  ends {moment(seen['t'] + seen['seconds_left'])}" if ends else ""
    progress = Text(f"{bar(share, max(width - 45, 10))} {percent(share, 1)}{end}", no_wrap=True, overflow="ellipsis")
    return [state, progress, Text("")]


def _warnings(seen: dict) -> list[str]:
    age = seen["sample_age_seconds"]
    if seen.get("lost"):
        return [f"no connection ({seen['lost']}): old"]
    if seen["loaded"] < 1:
        return [f"reading the log, {percent(seen['loaded'], 0)}"]
    old = seen["state"] == "running" and age is not None and age > _OLD_SECONDS
    still = [f"no step for {duration(seen['step_age_seconds'])}"] if seen["stands_still"] else []
    return [*still, *([f"machine not seen for {duration(age)}"] if old else [])]


def _told(name: str, seen: dict) -> dict[str, str]:
    told, cpu = facts(name, seen), seen["cpu"] or {}
    shares = [f"{percent((cpu.get(key) or 0) / 100, 0)} {key}" for key in ("user", "iowait", "idle") if key in cpu]
    return {
        "epoch": f"{told['epoch']}, step {told['step']}",
        **{key: told[key] for key in ("time left", "images/s", "limit")},
        "top-1": f"{told['top-1']}, loss {told['loss']}",
        **{key: told[key] for key in ("checkpoint", "cost") if key in told},
        "processor": ", ".join(shares) or "–",
    }


def _table(told: dict[str, str]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for what, value in told.items():
        table.add_row(Text(what, style="dim"), Text(value, no_wrap=True, overflow="ellipsis"))
    return table


def _gpus(gpus: list[dict], width: int, rows: int) -> list:
    """A line a device, in as many columns as they need; what has no room is counted."""
    if not gpus:
        return []
    columns = min(-(-len(gpus) // rows), max(width // 38, 1))
    shown = gpus[: (rows if len(gpus) <= rows * columns else max(rows - 1, 0)) * columns]
    each = -(-len(shown) // columns) or 1
    grid = Table.grid(padding=(0, 3, 0, 0))
    for row in range(each):
        grid.add_row(*[_gpu(number, shown[number]) for number in range(row, len(shown), each)])
    more = len(gpus) - len(shown)
    return [grid, *([Text(f"and {more} more GPUs", style="dim")] if more else [])]


def _gpu(number: int, gpu: dict) -> Text:
    util, memory, watts, heat = (gpu.get(key) for key in ("util", "mem_used_mb", "power_w", "temperature_c"))
    if (util, memory, watts, heat) == (None, None, None, None):
        return Text(f"{number:>2} does not answer", style="bold red")
    style = "yellow" if gpu.get("throttle") else "cyan" if (util or 0) >= 70 else "orange3"
    gigabytes = None if memory is None else memory / 1000
    parts = [_unit(util, "%", 4), _unit(gigabytes, " GB", 8, 1), _unit(watts, " W", 6), _unit(heat, "°", 4)]
    return Text.assemble(f"{number:>2} ", (bar((util or 0) / 100, 8), style), *parts)


def _unit(value: float | None, unit: str, width: int, digits: int = 0) -> str:
    return ("–" if value is None else f"{value:.{digits}f}{unit}").rjust(width)


def bar(share: float, width: int) -> str:
    """A share of 0-1 in eighths of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[rest] if rest else "")).ljust(width, "·")


def _silence(seen: dict) -> str:
    if seen["state"] != "running" or seen["step_age_seconds"] is None:
        return ""
    return f", {'last step' if seen['has_stepped'] else 'start'} {duration(seen['step_age_seconds'])} ago"


def _speed(seen: dict) -> str:
    found = seen["doctor"] or {}
    speed = seen["speed_now"] if seen["speed_now"] is not None else found.get("speed")
    if speed is None or not found.get("roof"):
        return number(speed)
    kind = "an estimated roof" if found["roof_is_estimated"] else "the roof"
    share, roof = percent(speed / found["roof"], 0), number(round(found["roof"], 1))
    return f"{number(round(speed, 1))}, {share} of {kind} of {roof}"


def _cost(costs: dict) -> str:
    end = f", {dollars(costs['forecast_usd'])} at the end" if costs["forecast_usd"] is not None else ""
    saving = f", {percent(costs['saving_share'], 0)} less than on demand" if costs["saving_share"] is not None else ""
    return f"{dollars(costs['so_far_usd'])}{end}{saving}" + (", OVER BUDGET" if costs["over_budget"] else "")
