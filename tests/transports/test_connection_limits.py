"""Which connection is closed when unfinished messages take too much memory."""

from hubbub.transports.connection_limits import UnfinishedMessages


class FakeConnection:
    """Drops its message when it is shed."""

    def __init__(self, unfinished: UnfinishedMessages, address: str, size: int) -> None:
        self.is_open = True
        self._unfinished = unfinished
        unfinished.update(self, address, size)

    def shed(self) -> None:
        self.is_open = False
        self._unfinished.update(self, "", 0)


def test_the_client_with_most_bytes_loses_its_largest_message() -> None:
    unfinished = UnfinishedMessages(100)
    small = FakeConnection(unfinished, "192.0.2.1", 50)
    large = FakeConnection(unfinished, "192.0.2.1", 60)
    other = FakeConnection(unfinished, "192.0.2.2", 40)
    unfinished.shed()
    assert [each.is_open for each in (small, large, other)] == [True, False, True]


def test_all_addresses_of_an_ipv6_network_are_one_client() -> None:
    unfinished = UnfinishedMessages(100)
    many = [FakeConnection(unfinished, f"2001:db8::{number:x}", 10) for number in range(1, 7)]
    other = FakeConnection(unfinished, "2001:db8:1::1", 45)
    unfinished.shed()
    assert other.is_open
    assert sum(each.is_open for each in many) == 5
