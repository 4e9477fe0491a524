"""The state of a training at one moment, copied out of its way."""

import mxnet as mx

from trainer.learn.optimizer import state_arrays
from trainer.learn.parameters import Arrays, wait_for_statistics

Snapshot = dict[str, Arrays]


def take(network, trainer, into: Snapshot) -> Snapshot:
    """Copies on the CPU by the name of their file: weights, optimizer state, the other devices' statistics.

    Weights and optimizer state are only ordered here: MXNet's engine copies them before the next step's update writes
    them. Nothing orders batch norm's statistics against the next backward pass, so those are here on return.
    into: an earlier one that nobody needs any more, {} when there is none. Its memory is used again: memory that is
    fresh from the system takes four times as long to fill.
    """
    wait_for_statistics()
    parameters = network._collect_params_with_prefix()  # save_parameters' names
    weights = {name: parameter.list_data()[0] for name, parameter in parameters.items()}
    statistics = {name: weights.pop(name) for name, parameter in parameters.items() if parameter.grad_req == "null"}
    others = {
        f"{device}.{name}": array
        for name in statistics
        for device, array in enumerate(parameters[name].list_data()[1:], 1)
    }
    old_weights = into.get("weights.params", {})
    own, others = _copies(statistics, old_weights), _copies(others, into.get("statistics.params", {}))
    for array in (*own.values(), *others.values()):
        array.wait_to_read()
    return {
        "weights.params": own | _copies(weights, old_weights),
        "optimizer.params": _copies(state_arrays(trainer), into.get("optimizer.params", {})),
        "statistics.params": others,
    }


def size_bytes(snapshot: Snapshot) -> int:
    """What its arrays take, in memory and about so much on disk."""
    return sum(array.size * array.dtype().itemsize for arrays in snapshot.values() for array in arrays.values())


def _copies(arrays: Arrays, into: Arrays) -> Arrays:
    return {name: array.copyto(into.get(name, mx.cpu())) for name, array in arrays.items()}
