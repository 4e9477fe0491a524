"""Which of MXNet's wheels has machine code for a machine's GPUs."""

# A wheel serves capability X.Y when it holds code for X.Z with Z <= Y. None holds PTX, from which a newer GPU could
# make its own. The first that serves all GPUs is taken: CUDA 11 where both do, for its libraries are to be had.
WHEELS = {
    "mxnet-cu112": ((5, 0), (6, 0), (7, 0), (8, 0), (8, 6)),
    "mxnet-cu102": ((3, 0), (5, 0), (6, 0), (7, 0), (7, 5)),
}
CPU_WHEEL = "mxnet"


class NoWheelError(Exception):
    """No wheel serves all of the GPUs."""


def wheel_for(gpus):
    """The wheel's name for GPUs given as (name, (major, minor)); the CPU's for none. Raises NoWheelError."""
    if not gpus:
        return CPU_WHEEL
    for wheel, codes in WHEELS.items():
        if all(serves(codes, capability) for _, capability in gpus):
            return wheel
    served = [gpu for gpu in gpus if any(serves(codes, gpu[1]) for codes in WHEELS.values())]
    if len(served) == len(gpus):
        raise NoWheelError(f"no one wheel of MXNet 1.9.1 has code for all of {words(gpus)}: use one kind of GPU")
    others = [gpu for gpu in gpus if gpu not in served]
    raise NoWheelError(
        f"no wheel of MXNet 1.9.1 has code for {words(others)}: its newest is for 8.6, which runs up to 8.9, its "
        "oldest for 3.0; rent another type (K80, V100, T4, A10G, A100, L4), or set mxnet_runtime_use_gpus to false"
    )


def serves(codes, capability):
    return any(major == capability[0] and minor <= capability[1] for major, minor in codes)


def words(gpus):
    return ", ".join(sorted({f"{name} (compute capability {major}.{minor})" for name, (major, minor) in gpus}))
