"""The optimizer: made from the configuration, its state read and written as plain arrays, never as pickles."""

from collections.abc import Iterator

from mxnet import gluon

from trainer.config import Config
from trainer.errors import DataError

# Those that take a momentum.
MOMENTUM = ("nag", "sgd", "lars")
# Name in a checkpoint -> attribute of MXNet's dynamic loss scaler. It skips the update of a step that overflowed, so
# the optimizer may have made fewer updates than the run made steps.
_SCALER = {"loss_scale": "_loss_scale", "next_loss_scale": "_next_loss_scale", "steps_without_overflow": "_unskipped"}


def make_trainer(network, config: Config) -> gluon.Trainer:
    """Gluon's trainer for an initialised network; it updates each device's copy, so the states are in this process.

    It gives every device the first one's values here and not, as Gluon would, after the first backward pass: that would
    undo the batch-norm statistics of the others in each process's first step.
    """
    options = {"learning_rate": 0.0, "wd": config.weight_decay}
    if config.optimizer in MOMENTUM:
        options["momentum"] = config.momentum
    if config.optimizer == "lars":
        # MXNet would correct the momentum for a changed learning rate, but of the first four parameters of the first
        # device only: the devices' weights would drift apart.
        options["momentum_correction"] = False
    if config.precision == "float16":
        options["multi_precision"] = True
    trainer = gluon.Trainer(
        network.collect_params(), config.optimizer, options, kvstore=config.kvstore, update_on_kvstore=False
    )
    trainer._init_kvstore()
    trainer._init_params()
    _make_states(trainer)
    return trainer


def state_arrays(trainer: gluon.Trainer) -> dict:
    """`{"<parameter index>.<place in the state>": NDArray}`; every device holds the same, the first one's are taken."""
    return {
        f"{index}.{place}": array
        for index, state in trainer._updaters[0].states.items()
        for place, array in _flat(state)
    }


def load_state_arrays(trainer: gluon.Trainer, arrays: dict) -> None:
    """Fills every device's states; hyper-parameters are not in them, so the configuration's stay in force.

    DataError when they do not fit.
    """
    for updater in trainer._updaters:
        for index, state in updater.states.items():
            for place, array in _flat(state):
                _fill(array, arrays, f"{index}.{place}")


def counters(trainer: gluon.Trainer) -> dict:
    """What the optimizer counts: its updates and, in mixed precision, what the loss scaler knows."""
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    found = {"updates": trainer._optimizer.num_update}
    return found | {name: getattr(scaler, attribute) for name, attribute in _SCALER.items()} if scaler else found


def load_counters(trainer: gluon.Trainer, counted: dict) -> None:
    """The opposite of `counters`."""
    _set_update_count(trainer, counted["updates"])
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    if scaler:
        for name, attribute in _SCALER.items():
            setattr(scaler, attribute, counted[name])


def _make_states(trainer: gluon.Trainer) -> None:
    """Gluon makes them in the first update, but a run may be saved before it."""
    for index, parameter in enumerate(trainer._params):
        if parameter.grad_req == "null":
            continue
        for updater, weight in zip(trainer._updaters, parameter.list_data(), strict=True):
            updater.states[index] = trainer._optimizer.create_state_multi_precision(index, weight)
            updater.states_synced[index] = True


def _set_update_count(trainer: gluon.Trainer, update_count: int) -> None:
    """Adam and its kin correct their bias by the number of updates, counted for each device and parameter."""
    optimizer = trainer._optimizer
    optimizer.begin_num_update = optimizer.num_update = update_count
    indices = [index for index, parameter in enumerate(trainer._params) if parameter.grad_req != "null"]
    for counts in optimizer._all_index_update_counts.values():
        counts.update(dict.fromkeys(indices, update_count))


def _fill(array, arrays: dict, key: str) -> None:
    if key not in arrays or arrays[key].shape != array.shape:
        raise DataError(f"checkpoint: the optimizer's state {key} must have the shape {array.shape}")
    array[:] = arrays[key].as_in_context(array.context)


def _flat(state, place: str = "0") -> Iterator[tuple]:
    """A state is an array, None, or a nest of tuples of them."""
    if state is None:
        return
    if isinstance(state, tuple | list):
        for number, part in enumerate(state):
            yield from _flat(part, f"{place}.{number}")
    else:
        yield place, state
