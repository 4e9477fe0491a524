"""Real machines behind the double's instances; skipped, with the reason, where none can run."""

import pytest

import tests.rehearsal  # noqa: F401 (the hosts' modules have their names from here)


@pytest.fixture(scope="session")
def layers():
    """The module of images to boot from."""
    import image
    import layers

    if reason := image.why_not():
        pytest.skip(reason)
    return layers
