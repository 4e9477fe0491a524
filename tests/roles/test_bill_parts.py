"""The parts of a bill by tables: the ledger's rules, dollars, lost work, the text."""

import threading

import pytest
import role_modules  # noqa: F401
from ansible.module_utils import bill_ledger
from ansible.module_utils.bill_costs import bill_rows, spot_usd, total
from ansible.module_utils.bill_ledger import merge
from ansible.module_utils.bill_losses import lost_work, read_events
from ansible.module_utils.bill_scan import ended_at
from ansible.module_utils.bill_text import render

HOUR = 3600
RATES = {"volume_usd_per_gb_month": {"default": 0.08, "eu-west-1": 0.088},
         "snapshot_usd_per_gb_month": {"default": 0.05, "eu-west-1": 0.05},
         "copy_usd_per_gb": {"default": 0.02, "sa-east-1": 0.138}}  # fmt: skip


def seen(key="i-1@0", kind="instance", alive=True, until=None, **more):
    row = {"key": key, "kind": kind, "id": key.split("@")[0], "region": "r", "zone": "ra", "from": 0, "until": until,
           "alive": alive, "state": "running" if alive else "terminated"}  # fmt: skip
    if kind == "instance":
        row |= {"instance_type": "p2.16xlarge", "market": "spot", "interrupted": False}
    else:
        row |= {"size_gb": 730}
    return row | more


def known(last_seen=50, until=None, until_is=None, **more):
    return seen(**more) | {"last_seen": last_seen, "until": until, "until_is": until_is}


@pytest.mark.parametrize(
    ("before", "now_seen", "expected"),
    [
        ([], seen(), (None, None, 100)),
        ([known()], seen(), (None, None, 100)),
        ([known()], seen(alive=False, until=70), (70, "told", 50)),
        ([], seen(alive=False, until=70), (70, "told", 100)),
        ([known()], seen(alive=False), (100, "about", 50)),
        ([known(until=70, until_is="told")], seen(alive=False), (70, "told", 50)),
        ([known(until=60, until_is="seen")], seen(alive=False, until=70), (70, "told", 50)),
        ([known()], None, (50, "seen", 50)),
        ([known(until=70, until_is="told")], None, (70, "told", 50)),
        ([known(until=50, until_is="seen")], seen(), (None, None, 100)),
        ([known()], seen(until=80, state="stopped"), (80, "told", 100)),
    ],
    ids=["new", "still there", "ended", "never seen alive", "ended, AWS does not say when", "said once", "said later",
         "gone", "gone after its end", "hidden for a while", "stopped"],
)  # fmt: skip
def test_the_ledgers_rules(before, now_seen, expected):
    rows = merge({row["key"]: row for row in before}, [now_seen] if now_seen else [], {"r"}, now=100)
    [row] = rows.values()
    assert (row["until"], row["until_is"], row["last_seen"]) == expected


def test_a_region_that_told_nothing_ends_nothing():
    assert merge({"i-1@0": known()}, [], {"other"}, now=100)["i-1@0"]["until"] is None


def test_a_start_after_a_stop_is_a_row_of_its_own():
    rows = merge({"i-1@0": known()}, [seen("i-1@60", **{"from": 60})], {"r"}, now=100)
    assert (rows["i-1@0"]["until"], rows["i-1@60"]["until"]) == (50, None)


@pytest.mark.parametrize(
    ("instance_end", "expected"), [(80, (80, "instance")), (30, (50, "seen")), (None, (50, "seen"))]
)
def test_a_volume_that_goes_with_its_instance_ends_with_it(instance_end, expected):
    before = {"i-1@0": known(), "vol-1": known(key="vol-1", kind="volume", ends_with="i-1")}
    rows = merge(before, [seen(alive=instance_end is None, until=instance_end)], {"r"}, now=100)
    assert (rows["vol-1"]["until"], rows["vol-1"]["until_is"]) == expected


REQUEST = {"key": "sir-1", "kind": "spot_request", "id": "sir-1", "region": "r", "instance_id": "i-1", "alive": False,
           "instance_ended": 80, "instance_interrupted": True}  # fmt: skip


@pytest.mark.parametrize("instance", [[], [seen(alive=False)]], ids=["forgotten", "the reason has no time"])
def test_the_end_that_aws_forgot_is_told_by_the_spot_request(instance):
    [row] = merge({"i-1@0": known()}, [*instance, REQUEST], {"r"}, now=100).values()
    assert (row["until"], row["until_is"], row["interrupted"]) == (80, "told", True)


def test_a_request_takes_back_no_end_that_was_told():
    [row] = merge({"i-1@0": known(until=70, until_is="told")}, [REQUEST], {"r"}, now=100).values()
    assert (row["until"], row["interrupted"]) == (70, False)


@pytest.mark.parametrize(("heard", "until"), [([10, 60, 90], 90), ([10], 50), ([], 50), ([60, 240], 60)])
def test_a_machine_that_is_forgotten_was_there_when_it_was_heard_last(heard, until):
    """What is heard after another machine's start is that one's."""
    before = {"i-1@0": known(), "i-2@200": known(key="i-2@200", **{"from": 200})}
    rows = merge(before, [seen("i-2@200", **{"from": 200})], {"r"}, now=300, heard=heard)
    assert (rows["i-1@0"]["until"], rows["i-1@0"]["until_is"]) == (until, "seen")


def test_merging_again_changes_nothing():
    before = {"i-1@0": known(), "vol-1": known(key="vol-1", kind="volume", ends_with="i-1")}
    once = merge(before, [seen(alive=False, until=80)], {"r"}, now=100)
    assert merge(once, [seen(alive=False, until=80)], {"r"}, now=200) == once


def test_what_is_never_charged_for_is_not_kept():
    assert merge({}, [seen("sir-1", kind="spot_request")], {"r"}, now=100) == {}


def test_one_process_at_a_time_writes_the_ledger(tmp_path):
    path, entered = str(tmp_path / "run/ledger.json"), threading.Event()

    def second():
        with bill_ledger.locked(path):
            entered.set()

    with bill_ledger.locked(path):
        thread = threading.Thread(target=second, daemon=True)
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(10)
    thread.join()


@pytest.mark.parametrize(
    ("start", "end", "prices", "usd"),
    [
        (0, HOUR, [[0, 2.0]], 2.0),
        (0, HOUR, [[-50, 2.0]], 2.0),
        (0, HOUR, [[1800, 4.0], [-50, 2.0]], 3.0),
        (0, HOUR, [[-50, 9.0], [0, 2.0]], 2.0),
        (0, HOUR, [[0, 2.0], [HOUR, 9.0]], 2.0),
        (0, HOUR, [[900, 2.0]], 2.0),
        (0, 3 * HOUR, [[0, 1.0], [HOUR, 2.0], [2 * HOUR, 3.0], [9 * HOUR, 50.0]], 6.0),
        (0, HOUR, [], None),
    ],
)
def test_each_second_costs_the_price_in_force(start, end, prices, usd):
    assert spot_usd(start, end, prices) == (None if usd is None else pytest.approx(usd))


@pytest.mark.parametrize(
    ("changes", "usd"),
    [
        ({"until": 2 * HOUR}, 4.0),
        ({"until": None}, 6.0),
        ({"until": 10}, 2.0 / 60),
        ({"until": 0}, 2.0 / 60),
        ({"until": HOUR - 1, "interrupted": True}, 0.0),
        ({"until": HOUR, "interrupted": True}, 2.0),
        ({"until": HOUR - 1, "interrupted": False}, 2.0 * (HOUR - 1) / HOUR),
        ({"until": 2 * HOUR, "market": "on_demand"}, 20.0),
        ({"until": HOUR - 1, "market": "on_demand", "interrupted": True}, 10.0 * (HOUR - 1) / HOUR),
        ({"until": HOUR, "spot_prices": []}, None),
        ({"until": HOUR, "market": "on_demand", "on_demand_usd_per_hour": None}, None),
    ],
)
def test_what_an_instance_costs(changes, usd):
    row = known(until_is="told") | {"spot_prices": [[0, 2.0]], "on_demand_usd_per_hour": 10.0} | changes
    [bill] = bill_rows({"i-1@0": row}, RATES, now=3 * HOUR)
    assert bill["usd"] == (None if usd is None else pytest.approx(usd))


def test_storage_costs_by_size_and_time_and_a_copy_once():
    rows = {
        "vol-1": known(key="vol-1", kind="volume", until=100 * HOUR, until_is="told"),
        "snap-1": known(key="snap-1", kind="snapshot", copied_from="sa-east-1"),
    }
    bill = bill_rows(rows, RATES, now=200 * HOUR)
    assert {row["kind"]: row["usd"] for row in bill} == {
        "volume": pytest.approx(100 * 0.08), "snapshot": pytest.approx(200 * 0.05), "copy": pytest.approx(730 * 0.138),
    }  # fmt: skip
    assert total(bill) == pytest.approx(8 + 10 + 730 * 0.138)


@pytest.mark.parametrize(("region", "usd", "is_estimate"), [("eu-west-1", 8.8, False), ("r", 8.0, True)])
def test_a_volume_costs_what_its_region_takes_or_an_estimate_that_is_called_one(region, usd, is_estimate):
    volume = known(key="vol-1", kind="volume", until=100 * HOUR, until_is="told", region=region)
    [bill] = bill_rows({"vol-1": volume}, RATES, now=200 * HOUR)
    assert (bill["usd"], bill["is_estimate"]) == (pytest.approx(usd), is_estimate)
    assert bill["remark"].startswith("an estimate" if is_estimate else "") and bool(bill["remark"]) == is_estimate


@pytest.mark.parametrize(
    ("state", "reason", "end"),
    [
        ("terminated", "User initiated (2026-12-03 03:43:12 GMT)", 1796269392),
        ("terminated", "Service initiated (2026-12-03 03:43:12 UTC)", 1796269392),
        ("running", "User initiated (2026-12-03 03:43:12 GMT)", None),
        ("terminated", "", None),
        ("terminated", None, None),
        ("terminated", "Server.InternalError", None),
    ],
)
def test_when_an_instance_ended(state, reason, end):
    assert ended_at({"State": {"Name": state}, "StateTransitionReason": reason}) == end


def start(t, step=0):
    return {"t": t, "kind": "start", "resumed_step": step}


def event(t, kind, step):
    return {"t": t, "kind": kind, "step": step}


FIRST = {"kind": "instance", "from": 0, "until": 2 * HOUR, "hours": 2.0, "usd": 4.0}
BEFORE = [start(10), event(1000, "checkpoint", 100), event(2000, "checkpoint", 200), event(3000, "step", 290)]


@pytest.mark.parametrize(
    ("events", "bill", "lost"),
    [
        ([*BEFORE, start(9000, 200)], [FIRST], (1, 90, 5200.0, 2.0 * 5200 / HOUR)),
        ([*BEFORE, start(9000, 100)], [FIRST], (1, 190, 6200.0, 2.0 * 6200 / HOUR)),
        ([*BEFORE, start(9000, 200)], [FIRST | {"until": None}], (1, 90, 1000.0, 2.0 * 1000 / HOUR)),
        ([*BEFORE, start(9000, 200)], [], (1, 90, 1000.0, 0.0)),
        ([*BEFORE, event(3100, "stop", 290), start(9000, 290)], [FIRST], (0, 0, 0.0, 0.0)),
        ([*BEFORE, event(3050, "checkpoint", 290), event(3100, "stop", 290), start(9000, 290)], [FIRST],
         (0, 0, 0.0, 0.0)),
        (BEFORE, [FIRST], (0, 0, 0.0, 0.0)),
        ([], [], (0, 0, 0.0, 0.0)),
        ([*BEFORE, start(9000, 200), event(9500, "checkpoint", 300), start(9900, 300)], [FIRST],
         (2, 90, 5200.0, 2.0 * 5200 / HOUR)),
    ],
)  # fmt: skip
def test_lost_work(events, bill, lost):
    found = lost_work(events, bill)
    assert (found["interruptions"], found["steps"], found["seconds"]) == lost[:3]
    assert found["usd"] == pytest.approx(lost[3], abs=1e-5)


def test_events_that_are_damaged_are_passed_over(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_bytes(b'{"t": 1, "kind": "start"}\n7\n{"kind": "step"}\n\xff\n{"t": 2, "kind": "st')
    assert [one["t"] for one in read_events(str(file))] == [1]
    assert list(read_events(str(tmp_path / "none"))) == []


def test_the_bill_in_words():
    row = known(until=2 * HOUR, until_is="told") | {"spot_prices": [[0, 2.0]], "on_demand_usd_per_hour": 10.0}
    rows = bill_rows({"i-1@0": row, "vol-1": known(key="vol-1", kind="volume")}, RATES, now=10 * HOUR)
    lost = {"interruptions": 2, "steps": 1234, "seconds": 1800.0, "usd": 1.0}
    bill = {"run": "trainer-1", "at": 10 * HOUR, "rows": rows, "total_usd": total(rows),
            "on_demand_usd": total(rows, "on_demand_usd"), "lost_work": lost, "notes": ["something"]}  # fmt: skip
    lines = render(bill).splitlines()
    assert lines[0] == "The bill of trainer-1, 1970-01-01 10:00 UTC"
    assert lines[3].split() == [
        "p2.16xlarge", "spot", "ra", "i-1", "1970-01-01", "00:00", "1970-01-01", "02:00", "2.00", "4.00", "20.00",
    ]  # fmt: skip
    assert lines[-3:] == [
        "Sum: $4.80; the same hours on demand $20.80: 77 % less",
        "Lost work, in that sum: 2 interruptions, 0.50 h and 1,234 steps trained twice, $1.00",
        "Note: something",
    ]
    assert "Nothing" in render(bill | {"rows": [], "total_usd": 0.0, "on_demand_usd": 0.0})


@pytest.mark.parametrize(("until_is", "words"), [("seen", "Sum: at least $4.00"), ("about", "Sum: $4.00")])
def test_the_sum_of_what_nobody_saw_end_is_a_least(until_is, words):
    row = known(until=2 * HOUR, until_is=until_is) | {"spot_prices": [[0, 2.0]], "on_demand_usd_per_hour": 10.0}
    rows = bill_rows({"i-1@0": row}, RATES, now=10 * HOUR)
    bill = {"run": "trainer-1", "at": 10 * HOUR, "rows": rows, "total_usd": total(rows), "notes": [],
            "on_demand_usd": total(rows, "on_demand_usd"), "lost_work": lost_work([], rows)}  # fmt: skip
    assert words in render(bill)
