"""Which driver which GPUs get, and what happens next."""

import re
import sys

import pytest
from playing import ROLES

sys.path.insert(0, str(ROLES / "nvidia_driver" / "module_utils"))
from driver_choice import RefusedError, choose, compile_errors, gpu_ids, next_step  # noqa: E402

DEVICES = [
    ("0x030000", "0x1013", "0x00b8"), ("0x030200", "0x10de", "0x102d"), ("0x030200", "0x10de", "0x102d"),
    ("0x040300", "0x10de", "0x0fbb"),
]
K80, T4 = "102d", "1eb8"


def test_only_nvidias_gpus_are_counted():
    assert gpu_ids(DEVICES) == [K80, K80]


@pytest.mark.parametrize("ids, wanted, branch", [
    ([K80] * 16, "", "470"), ([K80] * 16, "470", "470"), ([T4], "", "current"), ([T4], "current", "current"),
    ([T4], "470", "470"),
])
def test_the_branch_is_what_the_gpus_can_run(ids, wanted, branch):
    assert choose(ids, wanted, len(ids)) == branch


@pytest.mark.parametrize("ids, wanted, count, words", [
    ([K80] * 12, "", 16, "must be the number of GPUs on the PCI bus, 12, got 16"), ([], "", 1, "0, got 1"),
    ([K80] * 2, "", 1, "2, got 1"),
    ([K80], "current", 1, "470 is the last that knows"), ([K80, T4], "", 2, "no one driver"),
])
def test_a_driver_that_cannot_work_is_refused(ids, wanted, count, words):
    with pytest.raises(RefusedError, match=re.escape(words)):
        choose(ids, wanted, count)


@pytest.mark.parametrize("loaded, built, has_nouveau, step", [
    ("", "470.256.02", False, "load"), ("470.256.02", "470.256.02", False, ""),
    ("535.309.01", "470.256.02", False, "reboot"), ("", "470.256.02", True, "reboot"),
])
def test_a_reboot_only_when_another_driver_is_loaded(loaded, built, has_nouveau, step):
    assert next_step(loaded, built, has_nouveau) == step


def test_a_module_for_another_kernel_is_no_driver():
    with pytest.raises(RefusedError, match="not built for the running kernel"):
        next_step("", "", False)


def test_the_compilers_reason_is_found_among_its_talk():
    reasons = ["nv.c:12:3: error: implicit declaration of function 'x'", "make: *** [all] Error 2"]
    log = f"CC nv.o\n{reasons[0]}\n" + "CC y.o\n" * 50 + reasons[1]
    assert compile_errors(log).splitlines() == reasons
    assert compile_errors("one\ntwo") == "one\ntwo"
