"""Which of MXNet's wheels serves which GPUs."""

import re
import sys

import pytest
from playing import ROLES

sys.path.insert(0, str(ROLES / "mxnet_runtime" / "module_utils"))
from wheel_choice import WHEELS, NoWheelError, wheel_for  # noqa: E402


@pytest.mark.parametrize("capabilities, wheel", [
    ([], "mxnet"),
    ([(3, 0)], "mxnet-cu102"), ([(3, 7)] * 16, "mxnet-cu102"),
    ([(5, 2)], "mxnet-cu112"), ([(6, 1)], "mxnet-cu112"), ([(7, 0)], "mxnet-cu112"), ([(7, 5)] * 4, "mxnet-cu112"),
    ([(8, 0)], "mxnet-cu112"), ([(8, 6)], "mxnet-cu112"), ([(8, 9)], "mxnet-cu112"),
    ([(3, 7), (7, 0)], "mxnet-cu102"), ([(7, 0), (8, 6)], "mxnet-cu112"),
])
def test_the_wheel_that_has_code_for_every_gpu(capabilities, wheel):
    assert wheel_for([("GPU", capability) for capability in capabilities]) == wheel


@pytest.mark.parametrize("gpus, words", [
    ([("H100", (9, 0))], "H100 (compute capability 9.0)"), ([("B200", (10, 0))], "B200 (compute capability 10.0)"),
    ([("M2090", (2, 0))], "M2090 (compute capability 2.0)"),
    ([("T4", (7, 5)), ("H100", (9, 0))], "has code for H100"),
    ([("K80", (3, 7)), ("A10G", (8, 6))], "no one wheel"),
])
def test_gpus_without_code_are_refused_by_name(gpus, words):
    with pytest.raises(NoWheelError, match=re.escape(words)):
        wheel_for(gpus)


@pytest.mark.parametrize("wheel", WHEELS)
def test_every_line_of_a_wheels_file_has_a_version_and_a_hash(wheel):
    text = (ROLES / "mxnet_runtime" / "files" / f"{wheel}.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0].startswith(f"{wheel}==1.9.1 ")
    assert all(re.fullmatch(r"[\w-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
