"""`-e name=false` gives a string, which counts as true: conditions take a flag through the filter `bool`."""

import re

import pytest
import yaml

from tests.roles.playing import PROJECT, ROLES

# What the inventories wire and nobody gives.
WIRED = {"trainer_service"}
PLACES = [*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/vars/*.yml"), *PROJECT.glob("playbooks/**/*.*")]


def flags():
    for file in ROLES.glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(file.read_text())["argument_specs"].values():
            options = entry.get("options", {}).items()
            yield from (name for name, option in options if option["type"] == "bool" and name not in WIRED)


def uses(flag, text):
    """The lines that take it as true or false: `when: flag`, `not flag`, `flag and`, `and flag`, `filter(flag)`."""
    after = rf"(?:when:|that:|-|\bnot|\bif) \(?{flag}\b|\b(?:and|or) {flag}(?:$| \|)|\({flag}\b"
    return re.findall(rf"^.*(?:{after}|\b{flag}\b(?: \| \S+)? (?:and|or|else)\b).*$", text, re.MULTILINE)


@pytest.mark.parametrize("flag", sorted(set(flags())))
def test_conditions_take_a_flag_as_what_it_says(flag):
    told = "".join(f"{line}\n" for place in PLACES for line in place.read_text().splitlines() if "#" not in line)
    lines = [line.strip() for line in uses(flag, told) if f"- {flag}" != line.strip()]
    assert [line for line in lines if not re.search(rf"\b{flag}(?: \| default\(\w+\))? \| bool\b", line)] == []
