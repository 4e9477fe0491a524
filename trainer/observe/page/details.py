"""The report's tables: configuration, versions, tuning, money, and how to train the same again."""

import json
import re
import shlex
import tomllib
from pathlib import Path

from trainer.observe.costs import costs, ended, read_bill, read_price
from trainer.observe.history import History, is_number
from trainer.observe.summary import seconds_left
from trainer.observe.words import dollars, duration, number, percent
from trainer.run import Run


def config(run: Run, history: History) -> dict[str, str]:
    try:
        values = tomllib.loads(run.config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        values = history.start.get("config") or {}
    return {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in values.items()}


def versions(history: History) -> dict[str, str]:
    start = history.start
    known = {
        "Kit": start.get("code") or start.get("version"),
        "MXNet": start.get("mxnet"),
        "numpy": start.get("numpy"),
        "Python": start.get("python"),
        "Host": start.get("host"),
        "Devices": ", ".join(start.get("devices") or []),
        "Decode threads": start.get("decode_threads_effective"),
        "Decoder": start.get("decoder"),
    }
    return {what: str(value) for what, value in known.items() if value}


def command(run: Run) -> str:
    """Shell lines that train the same configuration again, in a directory of its own beside this one."""
    directory = run.directory.resolve()
    again = directory.with_name(f"{directory.name}-again")
    line = re.sub(r"[\\&|]", r"\\\g<0>", "run_directory = " + json.dumps(str(again)))
    script, config = (shlex.quote(text) for text in (f"s|^run_directory = .*|{line}|", str(directory / "config.toml")))
    return f"sed {script} {config} > again.toml\npython -m trainer train --config again.toml"


def tuning(run: Run) -> list[dict]:
    """{what, setting, speed, gain} of what `tune` found: the start, each knob, the end, the roofs. [] without one."""
    found = _read(run.tuning)
    start, credit = _dict(found.get("start")), _dict(found.get("credit"))
    if not start or not is_number(found.get("images_per_second")):
        return []
    began = f"batch {number(_known(start.get('batch_size')))}, {number(_known(start.get('decode_threads')))} threads"
    rows = [_row("before", began, start.get("images_per_second"))]
    names = {"decode_threads": "decode threads", "batch_size": "batch", "precision": "precision"}
    rows += [
        _row(names.get(knob, str(knob)), number(_known(found.get(knob))), None, f"× {number(factor)}")
        for knob, factor in credit.items()
        if is_number(factor)
    ]
    rows.append(_row("after", "measured" if found.get("proven") else "expected", found["images_per_second"]))
    return rows + [_row(f"roof of the {name}", "", rate) for name, rate in _dict(found.get("roofs")).items()]


def money(run: Run, history: History, state: str) -> dict | None:
    """{note, rows: [(what, value)], items: [bill's rows]}; the bill itself where it is known, else by the price."""
    bill = read_bill(run.bill)
    if bill is not None:
        return _billed(bill)
    price = read_price(run.price)
    if price is None:
        return None
    now = ended(history, state)
    left = seconds_left(history.steps[-1], history.start, state, now) if state == "running" and history.steps else None
    found = costs(price, now, left)
    rows = {"So far" if state == "running" else "Until the run ended": dollars(found["so_far_usd"])}
    if state == "running":
        rows["Forecast"] = dollars(found["forecast_usd"])
    rows |= {
        "Saving against on demand": f"{dollars(found['saving_usd'])} ({percent(found['saving_share'], 0)})",
        "Machine": " ".join(filter(None, (found["instance_type"], found["market"], found["place"]))),
        "Price an hour": dollars(found["price_usd_per_hour"]),
        "On demand, an hour": dollars(found["on_demand_usd_per_hour"]),
        "Budget": dollars(found["budget_usd"]) if found["budget_usd"] is not None else "none set",
    }
    return {"note": "machines only, by their prices", "rows": list(rows.items()), "items": []}


def _billed(bill: dict) -> dict:
    total, otherwise = bill["total_usd"], _known(bill.get("on_demand_usd"))
    rows = [("In all", dollars(total)), ("On demand", dollars(otherwise))]
    if otherwise:
        rows.append(("Saving", f"{dollars(otherwise - total)} ({percent(1 - total / otherwise, 0)})"))
    lost = _dict(bill.get("lost_work"))
    if is_number(lost.get("usd")):
        rows.append(("Work trained twice", f"{dollars(lost['usd'])}, {duration(_known(lost.get('seconds')))}"))
    items = [row for row in bill.get("rows") or [] if isinstance(row, dict)]
    return {"note": "as AWS's prices say", "rows": rows, "items": [_item(row) for row in items]}


def _item(row: dict) -> dict:
    what = " ".join(str(row[key]) for key in ("kind", "instance_type", "market", "id") if row.get(key))
    place, hours = row.get("zone") or row.get("region") or "–", _known(row.get("hours"))
    return {"what": what, "place": place, "hours": None if hours is None else round(hours, 1),
            "usd": dollars(_known(row.get("usd"))), "remark": row.get("remark") or ""}  # fmt: skip


def _row(what: str, setting: str, speed, gain: str = "") -> dict:
    return {"what": what, "setting": setting, "speed": _known(speed), "gain": gain}


def _read(path: Path) -> dict:
    try:
        return _dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _dict(value) -> dict:
    return value if isinstance(value, dict) else {}


def _known(value) -> float | None:
    return value if is_number(value) else None
