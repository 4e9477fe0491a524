"""Settings as the role's argument specification types them: `-e trainer_epochs=3` arrives as text.

Values that have another type stay as they are: the check of the specification itself names them all at once.
"""

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

PREFIX = "trainer_"


def trainer_settings(settings, options):
    """The settings that are set, each of the type that `options` (of argument_specs.yml) gives to PREFIX + its name."""
    given = {key: value for key, value in settings.items() if value is not None and value != ""}
    spec = {key: _type_of(options[PREFIX + key]) for key in given}
    typed = ArgumentSpecValidator(spec).validate(given).validated_parameters
    return {key: _number(typed[key]) if spec[key].get("type") == "raw" else typed[key] for key in given}


def _number(value):
    """Settings of type raw are a word or a number, and the command line knows text only."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _type_of(option):
    return {key: option[key] for key in ("type", "elements") if key in option}


class FilterModule:
    def filters(self):
        return {"trainer_settings": trainer_settings}
