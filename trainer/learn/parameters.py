"""Parameter files of MXNet: written whole or not at all, read in any of their three naming styles, fitted to a network.

Styles: exported (`arg:resnet0_conv0_weight`: export, Module), structural (`features.0.weight`: save_parameters) and
plain names with or without the network's prefix (`conv0_weight`: the model zoo's older files).
"""

import os
from pathlib import Path

import mxnet as mx
from mxnet.gluon import HybridBlock, Parameter

from trainer.errors import ConfigError, DataError, DiskError

Arrays = dict[str, mx.nd.NDArray]

# Below this share of parameters that fit, a file belongs to another kind of network.
_LEAST_TAKEN = 0.5


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Writes a .params file and proves that it is whole, by reading it: MXNet hides a disk that fills up at the end.

    DiskError when it cannot be written; not atomic (the caller renames).
    """
    try:
        # MXNet cannot read an empty dictionary back.
        mx.nd.save(str(path), arrays or {"none": mx.nd.zeros((1,))})
        mx.nd.load(str(path))
    except mx.MXNetError as error:
        raise DiskError(f"{path}: cannot be written whole: {last_line(error)}") from error


def current_values(network: HybridBlock) -> Arrays:
    """The model that the devices have trained together, by parameter name, on the CPU.

    Weights are the same on every device; batch norm's statistics are each device's own, so their mean.
    """
    wait_for_statistics()
    return {name: _value(parameter) for name, parameter in network.collect_params().items()}


def wait_for_statistics() -> None:
    """Must come before batch norm's statistics are read: the backward pass writes them late, and reading alone does
    not wait for that."""
    mx.nd.waitall()


def _value(parameter: Parameter) -> mx.nd.NDArray:
    arrays = [array.as_in_context(mx.cpu()) for array in parameter.list_data()]
    return arrays[0] if parameter.grad_req != "null" else sum(arrays) / len(arrays)


def read_parameters(path: Path, key: str) -> Arrays:
    """The arrays of a .params file by the names in it, less `arg:` and `aux:`.

    ConfigError when there is no such file (`key` is the configuration's key that names it), DataError when it is
    damaged.
    """
    if not path.is_file():
        raise ConfigError(f"{key} must be a parameter file that exists, got {path}")
    try:
        arrays = mx.nd.load(str(path))
    except (mx.MXNetError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: must be a parameter file of MXNet, but cannot be read: {last_line(error)}") from error
    if not isinstance(arrays, dict) or not arrays:
        raise DataError(f"{path}: must be a parameter file of MXNet with names, but has none")
    return {name.removeprefix("arg:").removeprefix("aux:"): array for name, array in arrays.items()}


def set_parameters(network: HybridBlock, arrays: Arrays, path: Path, *, complete: bool = False) -> dict:
    """Copies the arrays of the file `path` that fit by name and shape into an initialised network, on every context.

    Returns {"file", "taken": how many, "new": parameters that keep their values, "unused": arrays left over}.
    ConfigError when hardly anything fits or, with `complete`, anything does not.
    """
    parameters = _named_as_in(arrays, network)
    new = [name for name, parameter in parameters.items() if not _fits(parameter, arrays.get(name))]
    if (complete and new) or len(parameters) - len(new) < _LEAST_TAKEN * len(parameters):
        raise ConfigError(_misfit(path, parameters, arrays, new))
    for name in parameters.keys() - set(new):
        parameters[name].set_data(arrays[name].astype(parameters[name].dtype))
    unused = [name for name in arrays if name not in parameters]
    return {"file": str(path), "taken": len(parameters) - len(new), "new": new, "unused": unused}


def _fits(parameter: Parameter, array: mx.nd.NDArray | None) -> bool:
    return array is not None and array.shape == parameter.shape


def _named_as_in(arrays: Arrays, network: HybridBlock) -> dict[str, Parameter]:
    """The network's parameters under the names that the file would give them."""
    if any("." in name for name in arrays):
        return network._collect_params_with_prefix()  # save_parameters' names, to which Gluon has no public way
    parameters = network.collect_params()
    ours, theirs = _common_prefix(parameters), _common_prefix(arrays)
    return {theirs + name.removeprefix(ours): parameter for name, parameter in parameters.items()}


def _common_prefix(names) -> str:
    """What all names begin with, up to an underscore."""
    prefix = os.path.commonprefix(list(names))
    return prefix[: prefix.rfind("_") + 1]


def _misfit(path: Path, parameters: dict[str, Parameter], arrays: Arrays, new: list[str]) -> str:
    name = new[0]
    found = f"has shape {arrays[name].shape}" if name in arrays else "is missing"
    return (
        f"{path}: must hold the parameters of this network, but only {len(parameters) - len(new)} of "
        f"{len(parameters)} fit; the first that does not, {name} {parameters[name].shape}, {found} there"
    )


def last_line(error: Exception) -> str:
    """What went wrong; above it an MXNetError carries where in the C++ code."""
    return str(error).strip().splitlines()[-1].removeprefix("MXNetError: ")
