"""What happens, and when: all of it follows from the seed. Pure."""

import random
from dataclasses import dataclass

HOME = "us-east-1"
ZONES = {HOME: ("a", "b"), "us-west-2": ("a", "b"), "eu-west-1": ("a", "b")}
# Dollars an hour, the cheapest zone first; the region of the data is the dearest. On demand it is 2.28.
AWAY_USD = (0.57, 0.61, 0.66, 0.72)
HOME_USD = (0.83, 0.88)
PICTURES = 3200
# The calls of every launch at whose answer a controller can die: the call is carried out, nobody hears of it.
HELD = ("ec2:RunInstances", "ec2:CreateVolume", "ec2:AttachVolume")


@dataclass(frozen=True)
class Life:
    """One machine: the market that it is rented in, what befalls it, after how many steps it ends, and how."""

    market: str  # "calm", "price spike", "drought"
    held: str  # the call at which the controller that rents it is killed; "": it lives
    mishaps: tuple[str, ...]  # "full disk", "corrupt checkpoint"
    steps: int
    end: str  # "notice", "loss", "finish"


@dataclass(frozen=True)
class Plot:
    seed: int
    short: bool
    prices_usd: dict[str, float]  # by zone, an hour
    damaged_record: int
    lives: tuple[Life, ...]


def plot(seed: int, short: bool) -> Plot:
    """The short one: a notice, and the end."""
    chance = random.Random(seed)
    prices = _prices(chance)
    damaged = chance.randrange(PICTURES)
    if short:
        lives = (Life("calm", "", (), chance.randrange(30, 60), "notice"), Life("calm", "", (), 40, "finish"))
    else:
        lives = _lives(chance)
    return Plot(seed, short, prices, damaged, lives)


def _prices(chance: random.Random) -> dict[str, float]:
    home, away = list(HOME_USD), list(AWAY_USD)
    chance.shuffle(home)
    chance.shuffle(away)
    zones = [f"{region}{letter}" for region, letters in ZONES.items() for letter in letters]
    return {zone: (home if zone.startswith(HOME) else away).pop() for zone in zones}


def _lives(chance: random.Random) -> tuple[Life, ...]:
    """Two machines that are lost and one that finishes; the drought comes last, for no spot machine outlives it."""
    ends = ["notice", "loss"]
    chance.shuffle(ends)
    mishaps: list[list[str]] = [[], []]
    for mishap in chance.sample(["full disk", "corrupt checkpoint"], 2):
        mishaps[chance.randrange(2)].append(mishap)
    held = [""] * 3
    held[chance.randrange(3)] = chance.choice(HELD)
    markets = ("calm", "price spike", "drought")
    steps = [chance.randrange(30, 90) for _ in markets]
    rows = zip(markets, held, [*map(tuple, mishaps), ()], steps, [*ends, "finish"], strict=True)
    return tuple(Life(*row) for row in rows)
