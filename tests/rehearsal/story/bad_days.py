"""What befalls a machine that trains, and what must come of it."""

import time

from tests.rehearsal.machine import Machine
from tests.rehearsal.story import watch
from tests.rehearsal.story.run import RUN, events, keep, last_step, mirrored_step, price, wait
from tests.rehearsal.story.stage import Stage

# AWS gives 120.
NOTICE_SECONDS = 25
FILLER = "/var/lib/trainer/filler"


def take_back(stage: Stage, machine: Machine) -> None:
    """The zone has no room any more: a notice, a checkpoint in the second place, and the machine is gone."""
    asked, epoch = time.time(), last_step(machine)["epoch"]
    stage.market.full.add(machine.zone)
    stage.set_market()
    stage.fleet.interrupt(machine.id, NOTICE_SECONDS)
    stage.timeline.say("AWS", f"takes the machines in {machine.zone} back in {NOTICE_SECONDS} s, at epoch {epoch:.2f}")
    with stage.timeline.doing("the trainer saves and ends"):
        stop = wait(lambda: _since(machine, asked, "stop"), "the checkpoint before it is gone", NOTICE_SECONDS)[0]
    keep((stop["reason"], stop.get("mirrored")) == ("notice", True), f"it ended otherwise: {stop}")
    words = f"finishes step {stop['step']}, saves in {stop['notice_to_durable_seconds']:.1f} s, sends it to the bucket"
    stage.timeline.say("host", words, stop["t"] - asked)
    stage.lost = {"what": "taken back after a notice", "step": stop["step"], "t": stop["t"]}
    _wait_until_gone(stage, machine)


def lose(stage: Stage, machine: Machine) -> None:
    """Its power is cut."""
    with stage.timeline.doing("a first checkpoint reaches the bucket"):
        wait(lambda: mirrored_step(stage.endpoint), "a checkpoint in the second place")
    last = last_step(machine)
    stage.fleet.lose(machine.id)
    stage.timeline.say("AWS", f"loses the machine in {machine.zone} at step {last['step']}, without a notice")
    stage.lost = {"what": "lost without notice", "step": last["step"], "t": last["t"]}
    _wait_until_gone(stage, machine)


def _wait_until_gone(stage: Stage, machine: Machine) -> None:
    with stage.timeline.doing("the machine goes"):
        wait(lambda: machine.id not in stage.fleet.by_id, f"the end of {machine.id}")


def fill_disk(stage: Stage, machine: Machine) -> None:
    """Nothing can be saved; training goes on, and saves when there is room again."""
    stage.timeline.say("host", "the disk of the run is full")
    machine.host.run(f"cat /dev/zero > {FILLER}", check=False)
    full = time.time()
    with stage.timeline.doing("training goes on without checkpoints"):
        wait(lambda: "no checkpoint of step" in _journal(machine, full), "word of a checkpoint that failed")
    machine.host.run(f"rm {FILLER}")
    freed = time.time()
    with stage.timeline.doing("there is room again"):
        saved = wait(lambda: _since(machine, freed, "checkpoint"), "a checkpoint once there is room")[0]
    keep(not _since(machine, full, "start", "stop"), "the trainer did not go on while the disk was full")
    words = f"trains on without checkpoints; with room again saves step {saved['step']}"
    stage.timeline.say("kit", words, saved["t"] - full)
    stage.note("full disk", f"trained on, saved step {saved['step']} when there was room")


def corrupt_checkpoint(stage: Stage, machine: Machine) -> None:
    """The trainer is killed and its newest checkpoint damaged: it takes a whole one, the bucket's or the one before."""
    wait(lambda: len(events(machine, "checkpoint")) > 1, "two checkpoints")
    before, killed = last_step(machine), time.time()
    newest = f"{RUN}/checkpoints/$(cat {RUN}/LATEST)"
    machine.host.run(
        "systemctl kill --signal=KILL trainer; "
        f"echo damaged | dd of={newest}/weights.params bs=1 seek=1000 conv=notrunc status=none"
    )
    stage.timeline.say("host", f"kills the trainer at step {before['step']} and damages its newest checkpoint")
    with stage.timeline.doing("systemd starts it again"):
        start = wait(lambda: _since(machine, killed, "start"), "the next start")[0]
        back = wait(lambda: _step(machine, start["t"], before["step"]), "the step that it was at")
    fetched = "bringing it here" in _journal(machine, killed)
    keep(fetched or bool(start["rejected"]), "the damaged checkpoint was not noticed")
    keep(start["resumed_step"] > 0, "the run began anew")
    words = "brings a whole one from the bucket" if fetched else "passes over the damaged one"
    stage.timeline.say("kit", f"{words}, goes on from step {start['resumed_step']}", back["t"] - killed)
    # Not every step is told: a checkpoint may be of a later one than was heard of.
    seconds, steps = back["t"] - before["t"], max(0, before["step"] - start["resumed_step"])
    usd = price(machine)["price_usd_per_hour"] * seconds / 3600
    stage.note("newest checkpoint damaged", f"went on from step {start['resumed_step']}", steps, seconds, usd)


MISHAPS = {"full disk": fill_disk, "corrupt checkpoint": corrupt_checkpoint}


def come_back(stage: Stage, machine: Machine) -> None:
    """After a loss, on the next machine: until the run is where it was."""
    lost = stage.lost
    start = events(machine, "start")[-1]
    with stage.timeline.doing(f"back to step {lost['step']}"):
        back = wait(lambda: _step(machine, start["t"], lost["step"]), f"step {lost['step']}")
    keep(start["resumed_step"] > 0, "the run began anew")
    words = f"goes on from step {start['resumed_step']}, is where it was {back['t'] - lost['t']:.0f} s after the loss"
    stage.timeline.say("kit", words)
    told = price(machine)
    usd = told["price_usd_per_hour"] * (back["t"] - told["launched_at"]) / 3600
    ended = f"went on in {told['zone']} ({told['market'].replace('_', ' ')}) from step {start['resumed_step']}"
    steps = max(0, lost["step"] - start["resumed_step"])
    stage.note(lost["what"], ended, steps, back["t"] - lost["t"], usd)
    stage.lost = None
    if stage.prometheus_url:
        usd, query = told["price_usd_per_hour"], "trainer_price_usd_per_hour"
        wait(lambda: watch.value(stage.prometheus_url, query) == usd, "Prometheus to know the next machine")


def _since(machine: Machine, moment: float, *kinds: str) -> list[dict]:
    return [event for event in events(machine, *kinds) if event["t"] > moment]


def _step(machine: Machine, moment: float, step: int) -> dict | None:
    """The first `step` event since the moment that is so far."""
    return next((event for event in _since(machine, moment, "step") if event["step"] >= step), None)


def _journal(machine: Machine, moment: float) -> str:
    return machine.host.read(f"journalctl -u trainer -o cat --since=@{moment:.0f}")
