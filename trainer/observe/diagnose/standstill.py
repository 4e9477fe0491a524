"""No step for too long: who is to blame. Utilisation is no witness: a GPU that never leaves a kernel shows 100 %."""

from trainer.observe.diagnose.device import lost_devices
from trainer.observe.diagnose.gpus import mean_of
from trainer.observe.diagnose.input import input_losses, input_weights
from trainer.observe.diagnose.loss import Loss, ramp
from trainer.observe.diagnose.picture import Picture, picture
from trainer.observe.diagnose.window import Window, begun
from trainer.observe.series import numbers

# Waiting for data all the time, with devices this idle (%), is a dead input rather than a hang.
WAITING, IDLE_UTIL = 0.5, 50.0
# Before the first step a hang is hard to tell from a slow start.
NOT_BEGUN = 0.6


def standstill(seen: Picture, samples: Window) -> list[Loss]:
    """What a standstill costs: everything. Empty when steps go on."""
    if not samples.standstill:
        return []
    still = picture(Window(samples.standstill, samples.standstill, samples.standstill_seconds, samples.all))
    lost = [Loss(loss.verdict, 1.0, loss.strength, loss.evidence, loss.advice) for loss in lost_devices(still)]
    blocked = _blocked_input(still)
    # One sample weighs a little less, so that the cause stands before what follows from it.
    return [*lost, *(blocked or [_hung(still, samples, share=1.0 - 0.01 * bool(lost))])]


def _blocked_input(still: Picture) -> list[Loss]:
    idle = still.gpus.util is None or still.gpus.util < IDLE_UTIL
    if not idle or (still.data_wait or 0.0) < WAITING or input_weights(still)["decode"] > 0.5:
        return []
    return input_losses(still, 1.0, 0.9)


def _hung(still: Picture, samples: Window, share: float) -> Loss:
    steps = [count for count in numbers(samples.standstill, "steps") if count is not None]
    where = f" after step {steps[-1]:,.0f}" if steps else ""
    lines = [f"no step for {samples.standstill_seconds:.0f} s{where}"]
    util = still.gpus.util
    if util is not None:
        lines.append(
            f"GPU utilisation is {util:.0f} %"
            + (", which only says that a kernel has not returned" if util > IDLE_UTIL else "")
        )
    power = mean_of([gpu.mean("power") for gpu in still.gpus.each])
    lines += [f"{power:.0f} W a GPU"] if power is not None else []
    reported = [speed for speed in numbers(samples.standstill, "images_per_second") if speed is not None]
    if reported and reported[-1]:
        lines.append(f"the {reported[-1]:,.0f} images/s that are reported are old: the count of steps stands still")
    strength = 0.55 + 0.25 * ramp(samples.standstill_seconds, 10, 30) + 0.15 * bool(steps) + 0.05 * ((util or 0) > 90)
    if not begun(samples.all):
        strength *= NOT_BEGUN
        lines.append("not one step yet: on many devices the first may take minutes")
    advice = (
        "Stop the run (`python -m trainer stop`; `kill -9` when that does not end it) and start it again: it continues "
        "from its last checkpoint. If it hangs again, look at `dmesg` (Xid) and take devices out one by one."
    )
    return Loss("hung", share, strength, tuple(lines), advice)
