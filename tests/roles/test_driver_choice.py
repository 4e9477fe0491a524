"""Which driver which GPUs get, and what happens next."""

import re
import sys

import pytest
from playing import ROLES

sys.path.insert(0, str(ROLES / "nvidia_driver" / "module_utils"))
from apt_sources import has_all, source_lines  # noqa: E402
from driver_choice import RefusedError, choose, compile_errors, gpu_ids, must_choose, next_step  # noqa: E402

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


QUERY = """Name: nvidia
Link: /usr/lib/nvidia/nvidia
Status: auto
Best: /usr/lib/nvidia/current
Value: {value}

Alternative: /usr/lib/nvidia/current
Priority: 535

Alternative: /usr/lib/nvidia/tesla-470
Priority: 470
"""


@pytest.mark.parametrize(("query", "must"), [
    ("", False),
    (QUERY.format(value="/usr/lib/nvidia/current"), True),
    (QUERY.format(value="/usr/lib/nvidia/tesla-470"), False),
    (QUERY.format(value="/usr/lib/nvidia/current").partition("Alternative: /usr/lib/nvidia/tesla")[0], False),
], ids=["no driver", "another", "this", "not installed"])  # fmt: skip
def test_of_several_branches_the_wanted_is_chosen(query, must):
    assert must_choose("470", query) == must


def test_the_compilers_reason_is_found_among_its_talk():
    reason, stop = "nv.c:12:3: error: implicit declaration of function 'x'", "make: *** [all] Error 2"
    log = f"CC nv.o\n{reason}\n" + "CC y.o\n" * 50
    assert compile_errors(log + f"{stop}\n" * 20) == reason
    assert compile_errors(f"{reason}\n" + "b.c:1:1: error: x\n" * 20).splitlines()[0] == reason
    assert compile_errors(f"CC nv.o\n{stop}\nrm nv.o") == stop
    assert compile_errors("one\ntwo") == "one\ntwo"


LIST = "deb https://one.invalid/debian bookworm main\ndeb [arch=amd64 signed-by=/keys/two.gpg] mirror+file:/m s main\n"
PARAGRAPHS = (
    "# Written by cloud-init\nTypes: deb\nURIs: mirror+file:///m\nSuites: bookworm\nComponents: main\n\n"
    "Types: deb\nURIs: https://two.invalid/\nSuites: s\nComponents: main\nSigned-By: /keys/three.gpg\n"
)
FILES = {"/etc/apt/sources.list": LIST, "/etc/apt/sources.list.d/debian.sources": PARAGRAPHS}
MORE = "contrib non-free non-free-firmware"


@pytest.mark.parametrize("target, line", [
    ("https://one.invalid/debian/ bookworm /etc/apt/sources.list:1",
     f"deb https://one.invalid/debian/ bookworm {MORE}"),
    ("mirror+file:/m/ s /etc/apt/sources.list:2", f"deb [signed-by=/keys/two.gpg] mirror+file:/m/ s {MORE}"),
    ("mirror+file:/m/ bookworm /etc/apt/sources.list.d/debian.sources:1", f"deb mirror+file:/m/ bookworm {MORE}"),
    ("https://two.invalid/ s /etc/apt/sources.list.d/debian.sources:2",
     f"deb [signed-by=/keys/three.gpg] https://two.invalid/ s {MORE}"),
])
def test_the_other_components_come_from_the_machines_own_mirrors_with_their_keys(target, line):
    assert source_lines([target, target], FILES.__getitem__) == [line]


@pytest.mark.parametrize("answer, can", [
    ("", False), ("x:\n  Installed: (none)\n  Candidate: (none)\n", False),
    ("x:\n  Installed: (none)\n  Candidate: 470.256.02-1\n", True),
])
def test_a_package_without_a_candidate_is_in_another_component(answer, can):
    assert has_all({"x": answer}) == can
    assert not has_all({"w": "", "x": answer})
