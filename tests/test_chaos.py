"""Everything at once, for a minute; see chaos.py."""

import chaos
import pytest


@pytest.mark.fault(
    "server, bulk job and training at work while processes are killed, their disk "
    "fills, connections drop and models are swapped",
    "each request is answered, or told to come again; each row is there once; each "
    "model loads (`python tests/chaos.py --minutes 10` makes more of it)",
)
def test_nothing_is_lost_in_chaos():
    table, lost = chaos.chaos(minutes=1)
    assert not lost, table
