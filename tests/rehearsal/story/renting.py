"""A machine is rented: train.yml in the market of the day, by a controller that may die in the middle."""

import math
import re

from tests.fakes.aws.world import world
from tests.rehearsal.story.market import ON_DEMAND_USD, SPIKE_USD, TYPE
from tests.rehearsal.story.plays import Played
from tests.rehearsal.story.plot import PICTURES, Life
from tests.rehearsal.story.reference import Reference
from tests.rehearsal.story.run import BrokenPromiseError, keep, price
from tests.rehearsal.story.stage import Stage

BATCH = 32
# Half a minute: too long for the short story.
TUNED = {"trainer_tune": "threads"}
# What a user says who does not wait for capacity (less than a round's pause: every offer once), and what he says then.
IMPATIENT = {"spot_instance_timeout_seconds": 29}
ANYTHING_GOES = {"spot_instance_allow_on_demand": True, "spot_market_max_price_usd": 3}


def rent(stage: Stage, life: Life) -> Played:
    """train.yml, in the market of the day, until steps flow on a machine."""
    settings = _have_trouble(stage, life) | ({} if stage.plot.short else TUNED)
    if life.end == "finish":
        settings |= _set_the_end(stage, life)
    if life.held:
        _kill_the_controller(stage, life, settings)
    cheapest = stage.market.cheapest() if life.market != "drought" else ""
    played = must_work(stage.plays.play("train", **settings))
    told = price(stage.machine)
    _check_place(stage, life, told, cheapest)
    less = 100 * (1 - told["price_usd_per_hour"] / ON_DEMAND_USD)
    market = told["market"].replace("_", " ")
    where = f"{TYPE}, {market}, in {told['zone']} at ${told['price_usd_per_hour']:.2f} an hour"
    stage.timeline.say("kit", f"{where}{f', {less:.0f} % off' if less else ''}; steps flow", played.seconds)
    stage.timeline.say("kit", f"({played.told_roles})")
    return played


def _check_place(stage: Stage, life: Life, told: dict, cheapest: str) -> None:
    """For the little that is left of a run when its end is set, a copy of the data may cost more than a dearer zone."""
    if life.market == "drought":
        usd = ON_DEMAND_USD
        keep(told["market"] == "on_demand", f"there was no spot machine to be had, got {told}")
    else:
        usd = stage.plot.prices_usd[told["zone"]]
        keep(told["zone"] == cheapest or life.end == "finish", f"{cheapest} was the cheapest zone, got {told}")
        keep(told["market"] == "spot" and told["zone"] not in stage.market.full, f"that was not to be had: {told}")
    keep(told["price_usd_per_hour"] == usd, f"it costs ${usd} an hour, the run was told {told}")
    paid = sorted(row["kind"] for row in stage.fleet.ask("bill") if not row["ended"] and row["kind"] != "snapshot")
    keep(paid == ["instance", "volume", "volume"], f"a machine, its disk and the data must be paid for, got {paid}")


def _have_trouble(stage: Stage, life: Life) -> dict:
    """What the market is like, and what the user says to that."""
    if life.market == "price spike":
        zone = stage.market.cheapest()
        stage.market.spikes[zone] = world().offset()
        stage.set_market()
        stage.timeline.say("AWS", f"the price in {zone}, the best place so far, is ${SPIKE_USD:.2f} now, above the cap")
    if life.market != "drought":
        return {}
    stage.market.full |= stage.plot.prices_usd.keys()
    stage.set_market()
    stage.timeline.say("AWS", "has no spot machine left in any zone")
    played = stage.plays.play("train", **IMPATIENT)
    keep(played.code != 0 and not stage.fleet.by_id, f"train.yml must fail without capacity: {played.words[-2000:]}")
    reasons = _failure(played).split("; ")
    keep(all("InsufficientInstanceCapacity" in reason for reason in reasons), f"it must say what AWS said: {reasons}")
    more = f"; {len(reasons) - 1} more for the same reason"
    stage.timeline.say("kit", f"tries all offers, and fails: {reasons[0]}{more}", played.seconds)
    stage.timeline.say("you", f"allow on demand, up to ${ANYTHING_GOES['spot_market_max_price_usd']} an hour")
    return dict(ANYTHING_GOES)


def _kill_the_controller(stage: Stage, life: Life, settings: dict) -> None:
    stage.market.held = life.held
    stage.set_market()
    played = stage.plays.play("train", kill_when_held=True, **settings)
    keep(played.code != 0, f"no controller was killed: nobody called {life.held}")
    stage.market.held = ""
    stage.set_market()
    call = life.held.partition(":")[2]
    stage.timeline.say("you", f"the controller dies while AWS does what it asked for ({call})", played.seconds)
    stage.note(f"controller killed at {call}", "the next train.yml found what there was", 0, played.seconds)


def _set_the_end(stage: Stage, life: Life) -> dict:
    """In whole epochs, after the steps of the machine to come; the run without interruption has the same."""
    epochs = math.ceil((stage.lost["step"] + life.steps) * BATCH / PICTURES)
    stage.timeline.say("you", f"let the run end after {epochs} epochs, {epochs * PICTURES // BATCH:,} steps")
    stage.reference = Reference(stage.config, epochs, stage.layers, stage.data, stage.folder)
    return {"trainer_epochs": epochs}


def must_work(played: Played) -> Played:
    """The play; BrokenPromiseError with its error when it failed."""
    if played.code != 0:
        raise BrokenPromiseError(f"the play failed: {_failure(played)}")
    return played


def _failure(played: Played) -> str:
    """The last error's message in one line."""
    told = re.findall(r"\[ERROR\]: (?:Task failed: )?(?:Module failed: )?(.*?)\nOrigin:", played.output, re.DOTALL)
    return " ".join(told[-1].split()) if told else played.words[-1000:]
