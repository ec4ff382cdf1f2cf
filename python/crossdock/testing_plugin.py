"""The pytest plug-in of crossdock.testing. pytest finds it if crossdock is installed.

It offers the fixture `simulated_devices`: two devices, or as the test's marker says:

    @pytest.mark.simulated_devices(n=3, delay=0.01)
    def test_my_code(simulated_devices): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crossdock.testing import SimulatedDevices


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "simulated_devices(n=2, *, delay=0.0, memory=None): what the fixture simulated_devices makes"
    )


@pytest.fixture
def simulated_devices(request: pytest.FixtureRequest) -> Iterator[SimulatedDevices]:
    """Simulated asynchronous devices for one test: see `crossdock.testing.simulated_devices`.

    The test fails if an order between queues was missing, unless `take_faults()` has returned it. Raises the
    errors of `crossdock.testing.simulated_devices()` for wrong arguments of the marker.
    """
    from crossdock import testing

    marker = request.node.get_closest_marker("simulated_devices")
    arguments = marker.args if marker else ()
    options = marker.kwargs if marker else {}
    with testing.simulated_devices(*arguments, **options) as devices:
        yield devices
