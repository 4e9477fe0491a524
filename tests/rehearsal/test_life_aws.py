"""A run on AWS through the plays beside train.yml: status, stop, rebuild, retire, on real hosts behind the double.

The tests follow one run through its life, in this order.
"""

import json
import math
import re

import pytest

from tests.rehearsal.killing import things
from tests.rehearsal.runs import RUN, changed, events, mirrored_step, only, steps, wait

pytestmark = pytest.mark.slow
RETIRE = ("retire.yml", "-e", "retire_confirmed=true")
# A finished run's machine ends at once; a few epochs are a run.
TRAIN = {"trainer_power_off_finished_minutes": 0.1, "trainer_warmup_epochs": 0}


def number(pattern, printed):
    """The number that the pattern finds, written with commas or not."""
    return float(re.search(pattern, printed)[1].replace(",", ""))


@pytest.fixture(scope="module", autouse=True)
def trained(play, endpoint):
    """The run has begun, and its second place has a checkpoint."""
    play("train.yml", **TRAIN)
    wait(lambda: mirrored_step(endpoint))


def test_status_is_one_screen_and_changes_nothing(play, fleet, folder, endpoint):
    machine = only(fleet)
    for _ in range(2):
        done = steps(machine)[-1]
        printed = play("status.yml")
        assert changed(printed) == 0, printed
        screen = printed.partition("TASK [Show the run]")[2].partition("PLAY RECAP")[0]
        assert len(screen.strip().splitlines()) <= 24, screen
        assert f"{machine.id}, c6i.large spot in us-west-2a, running at {machine.host.address}" in screen
        assert number(r"step ([\d,.]+) of", screen) >= done
        assert number(r"([\d,.]+) images/s", screen) > 0
        assert 0 < number(r"checkpoint +step ([\d,]+), ", screen) <= number(r"step ([\d,.]+) of", screen)
        assert number(r"the second place has step ([\d,]+)", screen) > 0
        assert "$0.02 an hour now" in screen
        assert number(r"cost +\$([\d.]+) so far", screen) >= 0.02  # the copy of the snapshot
    assert json.loads((folder / "run/trainer-1/report.json").read_text())["steps"] > 0


def test_stop_saves_and_the_next_run_goes_on(play, fleet, endpoint):
    machine = only(fleet)
    assert changed(play("stop.yml")) == 1
    saved = events(machine, "checkpoint")[-1]["step"]
    assert saved >= steps(machine)[-1]
    assert mirrored_step(endpoint) == saved
    printed = play("stop.yml")
    assert changed(printed) == 0, printed
    assert only(fleet) is machine
    assert f"The machine {machine.id} stays and goes on costing" in printed
    play("train.yml", **TRAIN)
    assert events(machine, "start")[-1]["resumed_step"] == saved
    assert steps(machine)[-1] > saved
    printed = play("train.yml", "--check", **TRAIN)
    assert changed(printed) == 0, printed


def lost(folder, after):
    """Settings with which the host is not reached any more after so many calls of ssh; each leaves a letter."""
    calls, program = folder / "calls", folder / "ssh-that-is-lost"
    calls.write_text("")
    program.write_text(
        f"""#!/bin/sh
printf x >>{calls}
[ "$(wc -c <{calls})" -le {after} ] && exec ssh "$@"
echo "ssh: connect to host: No route to host" >&2
exit 255
"""
    )
    program.chmod(0o755)
    return {"ansible_ssh_executable": str(program), "status_timeout_seconds": 3, "retire_timeout_seconds": 3}


def test_a_host_that_is_lost_in_the_middle_is_told_of_and_loses_nothing(play, fleet, folder, endpoint):
    machine, there = only(fleet), things(endpoint)
    play("status.yml", **lost(folder, after=1000))
    whole = len((folder / "calls").read_text())
    # The last call but one may close an older connection, or not be made.
    for after in (1, whole // 2, whole - 2):
        screen = " ".join(play("status.yml", **lost(folder, after)).partition("TASK [Show the run]")[2].split())
        assert f"where {machine.id}" in screen and "No route to host" in screen, screen
        assert "cost $" in screen
    for after in (1, whole // 2, whole - 2):  # it asks more than status does
        printed = play(*RETIRE, succeeds=False, **lost(folder, after))
        assert "No route to host" in printed
        assert things(endpoint) == there
    assert only(fleet) is machine
    play("train.yml", **TRAIN)


def test_retiring_a_host_that_cannot_reach_the_second_place_is_refused_and_loses_nothing(play, fleet, endpoint):
    machine = only(fleet)
    machine.cut_off.set()
    held = things(endpoint)
    over_there = mirrored_step(endpoint)
    printed = " ".join(play(*RETIRE, succeeds=False).split())
    assert "nothing has been deleted" in printed
    newest = events(machine, "checkpoint")[-1]["step"]
    assert newest > over_there
    assert machine.host.read(f"cat {RUN}/LATEST")
    assert things(endpoint) == held
    assert mirrored_step(endpoint) == over_there
    machine.cut_off.clear()


def test_rebuild_replaces_the_host_and_keeps_every_step(play, fleet, folder, endpoint):
    machine = only(fleet)
    saved = events(machine, "checkpoint")[-1]["step"]
    assert mirrored_step(endpoint) < saved
    wish = ("-e", "run_zone=us-west-2b")
    play("rebuild.yml", *wish, **TRAIN)
    rebuilt = only(fleet)
    assert (rebuilt.zone, rebuilt.id != machine.id) == ("us-west-2b", True)
    assert events(rebuilt, "start")[-1]["resumed_step"] == saved
    printed = play("rebuild.yml", *wish, **TRAIN)
    assert changed(printed) == 0, printed
    assert only(fleet) is rebuilt


def test_a_run_that_finishes_ends_its_machine(play, fleet, folder):
    play("stop.yml")
    epochs = math.ceil(events(only(fleet), "step")[-1]["epoch"]) + 2
    play("train.yml", "-e", f"trainer_epochs={epochs}", "-e", "trainer_wait=true", **TRAIN)
    wait(lambda: not fleet.by_id)  # finished, so it powers itself off
    play(*RETIRE)
    told = [json.loads(line) for line in (folder / "run/trainer-1/events.jsonl").read_text().splitlines()]
    assert [event["reason"] for event in told if event["kind"] == "stop"][-1] == "finished"


def test_what_was_retired_has_left_its_results_and_the_bill(play, folder, endpoint, before):
    results = folder / "run/trainer-1"
    [bucket] = things(endpoint) - before
    assert bucket.startswith("trainer-")
    assert json.loads((results / "report.json").read_text())["finished"]
    assert (results / "model.json").exists()
    bill = json.loads((results / "bill.json").read_text())
    machines = [row for row in bill["rows"] if row["kind"] == "instance"]
    assert [row["zone"] for row in machines] == ["us-west-2a", "us-west-2b"]
    assert bill["total_usd"] > 0.02
    assert not (results / "ssh").exists()
    again = play(*RETIRE)
    assert changed(again) == 0, again
    assert "Nothing with the tag run=trainer-1 is left in any region." in " ".join(again.split())
    play(*RETIRE, "-e", "checkpoint_mirror_keep=false")
    assert things(endpoint) == before
