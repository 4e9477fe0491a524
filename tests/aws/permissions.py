"""The documents of docs/iam."""

import json

from tests.roles.playing import PROJECT

NAMES = sorted(path.stem for path in (PROJECT / "docs/iam").glob("*.json"))


def document(name):
    return json.loads((PROJECT / "docs/iam" / f"{name}.json").read_text())


def allowed(name):
    """The actions that a document allows on something."""
    actions = [row["Action"] for row in document(name)["Statement"]]
    return {action for one in actions for action in ([one] if isinstance(one, str) else one)}
