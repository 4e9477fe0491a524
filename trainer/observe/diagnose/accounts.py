"""From the signs of each cause to images/s: the time that a run loses is shared out among what is seen to cost it."""

from dataclasses import replace

from trainer.observe.diagnose.device import (
    heat_by_elimination,
    hot_devices,
    lost_devices,
    one_slow_device,
    small_batch,
    waiting_for_each_other,
)
from trainer.observe.diagnose.input import input_losses, waiting_share
from trainer.observe.diagnose.loss import LEAST_SHARE, Loss, ramp
from trainer.observe.diagnose.picture import Picture

# Swapping this much (MB/s) is felt at all, and is all that a machine does.
SWAP_MB_S = (0.5, 5.0)
# Linux drops its file cache and starts to swap about here.
LOW_MEMORY_MB = (300.0, 1500.0)
# What swapping costs when nothing else shows how much.
SWAP_GUESS = 0.1
# A roof is measured, too: from this part of it on, there is nothing to gain.
AT_THE_ROOF = 0.95
# Waiting that training measured itself is believed against the roof from here on: then the roof is one that more
# decoding would raise.
CERTAIN_WAIT = 0.15
# Less than this part of the roof can be missing for no reason at all: the roof was measured without validation,
# checkpoints, the report, and on synthetic data.
UNEXPLAINED = 0.15
# Devices that heat holds down are told of however little it costs, and cost at least this.
LEAST_HEAT = 0.02


def losses(seen: Picture) -> list[Loss]:
    """What costs time, with its final share of the time; nothing when the run is at its roof."""
    found = _settled(seen, _seen(seen))
    return [loss for loss in found if loss.share >= _least(loss)]


def _least(loss: Loss) -> float:
    """A fault of the hardware is worth a word however little it costs."""
    return {"device_lost": 0.0, "thermal_throttle": LEAST_HEAT}.get(loss.verdict, LEAST_SHARE)


def _seen(seen: Picture) -> list[Loss]:
    """Each cause by its own signs. What slows devices down costs only the time in which they compute."""
    hot, hot_names = hot_devices(seen)
    slow = one_slow_device(seen, hot_names)
    saving = _saving(seen)
    saved = sum(loss.share for loss in saving)
    # Those who wait for a slow device seem to wait for each other.
    holding_up = [*slow, *(hot if len(hot_names) < len(seen.gpus.each) else [])]
    computing = max(0.0, 1 - (seen.data_wait or 0.0) - saved)
    sync = waiting_for_each_other(seen, sum(_held_up(loss.share, computing, seen.sync_wait) for loss in holding_up))
    others = sum(loss.share for loss in (*holding_up, *sync, *saving))
    waiting, strength = waiting_share(seen, others)
    memory, waiting_for_input = _memory(seen, waiting)
    computing = max(0.0, 1 - waiting - saved)
    slowing = [
        replace(loss, share=_held_up(loss.share, computing, seen.sync_wait if loss in holding_up else None))
        for loss in (*hot, *slow)
    ]
    return [
        *lost_devices(seen), *slowing, *sync, *saving, *memory, *input_losses(seen, waiting_for_input, strength),
        *small_batch(seen),
    ]  # fmt: skip


def _held_up(share: float, computing: float, sync_wait: float | None) -> float:
    """A device's slowness as a part of all time, from its part of the computing time.

    Where the devices' waiting for each other is measured, the others compute for what is left of the time, and the slow
    one takes 1 / (1 - share) times as long.
    """
    if sync_wait is None:
        return share * computing
    return min(max(0.0, computing - sync_wait) * share / max(1 - share, 0.05), computing)


def _saving(seen: Picture) -> list[Loss]:
    told = seen.checkpoint is not None
    share = seen.checkpoint if told else seen.idle_pauses
    if share < LEAST_SHARE:
        return []
    text = f"writing checkpoints takes {100 * share:.0f} % of the time"
    if not told:
        text = f"{100 * share:.0f} % of the time are pauses without a step, in which the devices idle and have data"
    advice = "Write checkpoints less often (checkpoint_interval), or to a faster disk."
    strength = 0.6 + 0.35 * ramp(share, 0.05, 0.15) if told else 0.5
    return [Loss("checkpoint_bound", share, strength, (text,), advice)]


def _memory(seen: Picture, waiting: float) -> tuple[list[Loss], float]:
    """Memory that runs short, and the waiting for data that it is not to blame for."""
    short = 1 - ramp(seen.available_mb, *LOW_MEMORY_MB) if seen.available_mb is not None else 0.5
    swapping = ramp(seen.swap_mb_s, *SWAP_MB_S) if seen.swap_mb_s is not None else 0.6 * (short > 0.9)
    if swapping < 0.1:
        return [], waiting
    # A machine with memory to spare may swap what nobody uses.
    blame = 0.85 * swapping * (0.4 + 0.6 * short)
    share = blame * waiting if waiting >= LEAST_SHARE else SWAP_GUESS * blame
    lines = [f"the machine swaps {seen.swap_mb_s:.1f} MB/s"] if seen.swap_mb_s is not None else []
    lines += [f"{seen.available_mb:,.0f} MB of memory are available"] if seen.available_mb is not None else []
    advice = (
        "Free memory: fewer images prepared ahead (a smaller batch_size or fewer decode_threads), end other processes, "
        "or a machine with more memory."
    )
    loss = Loss(
        "memory_pressure", share, 0.5 + 0.45 * swapping * short, ("; ".join(lines),), advice,
        open=waiting < LEAST_SHARE,
    )  # fmt: skip
    return [loss], waiting * (1 - blame)


def _settled(seen: Picture, found: list[Loss]) -> list[Loss]:
    """Shares made to agree with the roof, when there is one."""
    sized = [loss for loss in found if not loss.open]
    unsized = [loss for loss in found if loss.open]
    total = sum(loss.share for loss in sized)
    if seen.attained is None:
        guessed = _guessed(unsized, max(0.0, 1 - total))
        return _within_all_time([*sized, *guessed] or _idle_together(seen))
    lost = 1 - seen.attained
    if seen.attained >= AT_THE_ROOF:
        return _at_the_roof(seen, found, lost)
    rest = lost - total
    if rest >= LEAST_SHARE and unsized:
        return [*sized, *_shared_out(unsized, rest)]
    if rest <= 0 or (total >= lost / 4 and total >= LEAST_SHARE):
        return [*(replace(loss, share=loss.share * lost / total) for loss in sized), *_faults(unsized)]
    return [*sized, *_faults(unsized), *_by_elimination(seen, rest)]


def _faults(unsized: list[Loss]) -> list[Loss]:
    """Heat is told of even where others take all that is lost."""
    return [replace(loss, share=LEAST_HEAT) for loss in unsized if loss.verdict == "thermal_throttle"]


def _guessed(unsized: list[Loss], computing: float) -> list[Loss]:
    """Without a roof their own guess of the size has to do, and is less sure."""
    return [replace(loss, share=loss.share * computing, strength=0.8 * loss.strength) for loss in unsized]


def _within_all_time(found: list[Loss]) -> list[Loss]:
    total = sum(loss.share for loss in found)
    return found if total <= 0.95 else [replace(loss, share=0.95 * loss.share / total) for loss in found]


def _at_the_roof(seen: Picture, found: list[Loss], lost: float) -> list[Loss]:
    """Only what is certain by itself still counts: lost and hot devices, and waiting that training measured."""
    certain = [loss for loss in found if loss.verdict == "device_lost"]
    certain += [replace(loss, share=max(lost, LEAST_HEAT)) for loss in found if loss.verdict == "thermal_throttle"]
    measured = {
        "input": seen.data_wait or 0.0, "sync_bound": seen.sync_wait or 0.0, "checkpoint_bound": seen.checkpoint or 0.0
    }  # fmt: skip
    for loss in found:
        known = measured.get("input" if loss.verdict.startswith("input_") else loss.verdict, 0.0)
        if known >= CERTAIN_WAIT:
            certain.append(replace(loss, strength=0.6 * loss.strength))
    return _within_all_time(certain)


def _shared_out(unsized: list[Loss], rest: float) -> list[Loss]:
    """What the roof leaves unexplained goes to those whose cost nobody sees, by what they would cost and how sure."""
    weights = [max(loss.share, 0.01) * loss.strength for loss in unsized]
    return [
        replace(loss, share=rest * weight / sum(weights)) for loss, weight in zip(unsized, weights, strict=True)
    ]


def _by_elimination(seen: Picture, rest: float) -> list[Loss]:
    """Devices that have data and are below the roof: heat, if they are hot; else, if many, they wait for each other."""
    if rest < UNEXPLAINED or not seen.images_per_second:
        return []
    heat = heat_by_elimination(seen, rest)
    if heat or not _may_wait_for_each_other(seen):
        return heat
    text = f"nothing else explains {100 * rest:.0f} % of the roof; the devices have data and enough work each"
    return [Loss("sync_bound", rest, 0.4, (text,), _ELIMINATION_ADVICE)]


def _idle_together(seen: Picture) -> list[Loss]:
    """The same without a roof: devices that have data and yet are idle for a part of each reading."""
    idle = 1 - seen.gpus.util / 100 if seen.gpus.util is not None else 0.0
    if idle < UNEXPLAINED or not _may_wait_for_each_other(seen):
        return []
    text = f"the GPUs have data and enough work, and yet are idle {100 * idle:.0f} % of the time"
    return [Loss("sync_bound", idle, 0.35, (text,), _ELIMINATION_ADVICE)]


_ELIMINATION_ADVICE = (
    "Look at how gradients are exchanged (kvstore, nvidia-smi topo -m); a run on one device tells for sure."
)


def _may_wait_for_each_other(seen: Picture) -> bool:
    fed = seen.data_wait is not None and seen.data_wait < 2 * LEAST_SHARE
    return fed and len(seen.gpus.each) > 1 and seen.sync_wait is None and not seen.gpus.power_capped
