"""The story, act by act. Whatever does not end as it should is a BrokenPromiseError."""

import json

from tests.fakes.aws.clients import client
from tests.rehearsal.machine import Machine
from tests.rehearsal.story import accounts, watch
from tests.rehearsal.story.bad_days import MISHAPS, come_back, lose, take_back
from tests.rehearsal.story.equipment import GPUS
from tests.rehearsal.story.plot import ZONES, Life
from tests.rehearsal.story.renting import must_work, rent
from tests.rehearsal.story.run import NAME, events, keep, last_step, mirrored_step, newest_sums, wait
from tests.rehearsal.story.stage import Stage

RESULTS = ("report.html", "report.json", "model-0000.params", "events.jsonl", "bill.json")


def live(stage: Stage, life: Life) -> None:
    """One machine, from its renting to its end."""
    is_first = not stage.config
    played = rent(stage, life)
    machine = stage.machine
    if is_first:
        stage.config = machine.host.read("cat /etc/trainer/trainer.toml") + "\n"
    with watch.tunnel(played.words, stage.port) as url:
        if is_first:
            look(stage, url)
        if stage.lost:
            come_back(stage, machine)
        if life.end == "finish":
            finish(stage)
            return
        _train(stage, life)
    (take_back if life.end == "notice" else lose)(stage, machine)


def _train(stage: Stage, life: Life) -> None:
    machine = stage.machine
    until = last_step(machine)["step"] + life.steps
    with stage.timeline.doing(f"trains to step {until}"):
        wait(lambda: last_step(machine)["step"] >= until, f"step {until}")
    for mishap in life.mishaps:
        MISHAPS[mishap](stage, machine)


def look(stage: Stage, url: str) -> None:
    """The page in a browser, and the numbers in Prometheus."""
    with stage.timeline.doing("looking at the page"):
        picture = watch.look_at(url, stage.folder)
    seen = f"the page through the tunnel that the play printed: {picture}" if picture else "no page: no Chromium here"
    stage.timeline.say("seen", seen)
    if stage.prometheus_url is None:
        stage.timeline.say("seen", "no Prometheus here")
        return
    with stage.timeline.doing("asking Prometheus"):
        steps = wait(lambda: watch.value(stage.prometheus_url, "delta(trainer_steps_total[20s])"), "its numbers")
        gpus = watch.value(stage.prometheus_url, "trainer_gpus_answering")
    keep(gpus == GPUS, f"Prometheus must know {GPUS} GPUs, got {gpus}")
    stage.timeline.say("seen", f"Prometheus has {GPUS} GPUs and {steps:.0f} steps in the last 20 s")


def finish(stage: Stage) -> None:
    """All epochs are done; the weights are those of a run that nobody interrupted."""
    machine = stage.machine
    with stage.timeline.doing("trains to the end"):
        stop = wait(lambda: _finished(machine), "the end of the run")
    stage.timeline.say("host", f"finished at step {stop['step']:,}")
    bad = {event["key"] for event in events(machine, "bad_record")}
    keep(bad == {stage.plot.damaged_record}, f"record {stage.plot.damaged_record} is damaged, told was {bad}")
    stage.note(f"record {stage.plot.damaged_record} damaged", "passed over and named")
    with stage.timeline.doing("the run without interruption ends"):
        ours, theirs = newest_sums(machine.host), stage.reference.sums()
    keep(ours == theirs, f"the weights differ from those without interruption: {ours}, {theirs}")
    stage.timeline.say("seen", "weights and optimizer are those of a run without interruption, bit for bit")


def _finished(machine: Machine) -> dict | None:
    return next((event for event in events(machine, "stop") if event["reason"] == "finished"), None)


def retire(stage: Stage) -> dict[str, float]:
    """Results home, nothing left, and a bill that is the double's own to the cent. Returns both sums, in dollars."""
    played = must_work(stage.plays.play("retire", retire_confirmed=True))
    home = stage.folder / "run" / NAME
    missing = [name for name in RESULTS if not (home / name).exists()]
    keep(not missing, f"{home} must have the results, {missing} are missing")
    stage.timeline.say("kit", f"model and report are in {home}, everything is given back", played.seconds)
    kept = left(stage)
    keep(not kept and not (home / "ssh").exists(), f"nothing must be left, there is {kept or home / 'ssh'}")
    keep(mirrored_step(stage.endpoint) > 0, "the second place must keep the run's last checkpoint")
    stage.timeline.say("seen", f"nothing of the run is left in any of {len(ZONES)} regions")
    bill, ledger = json.loads((home / "bill.json").read_text()), stage.fleet.ask("bill")
    wrong = accounts.differences(bill, ledger)
    keep(not wrong, "; ".join(wrong))
    sums = {"bill_usd": bill["total_usd"], "ledger_usd": sum(map(accounts.cost_usd, ledger))}
    sums["on_demand_usd"] = bill["on_demand_usd"]
    stage.timeline.say("seen", f"the bill, ${sums['bill_usd']:.2f}, is the double's own ledger to the cent")
    return sums


def left(stage: Stage) -> list[str]:
    """What carries the run's tag or name yet, in all services that the kit uses."""
    found = [row["id"] for rows in stage.fleet.ask("state").values() for row in rows if "run" in row["tags"]]
    mine = [{"Name": "tag:run", "Values": [NAME]}]
    for region in ZONES:
        ec2 = client(stage.endpoint, region=region)
        found += [row["KeyName"] for row in ec2.describe_key_pairs(Filters=mine)["KeyPairs"]]
        found += [row["GroupId"] for row in ec2.describe_security_groups(Filters=mine)["SecurityGroups"]]
        found += [row["VpcId"] for row in ec2.describe_vpcs(Filters=mine)["Vpcs"]]
    iam = client(stage.endpoint, "iam")
    return found + [row["RoleName"] for row in iam.list_roles()["Roles"] if row["RoleName"].startswith("trainer-")]
