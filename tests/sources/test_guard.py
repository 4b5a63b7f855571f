"""Which addresses may be dialled."""

import socket
from ipaddress import ip_address

import pytest

from tonearm.sources.guard import AddressGuard, AddressRefusedError, is_public

PUBLIC = [
    "1.1.1.1", "93.184.216.34", "223.255.255.254", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e",
    "::ffff:1.1.1.1",
]  # fmt: skip
NOT_PUBLIC = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.8", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1",
    "::7f00:1", "::808:808", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1", "2001::1",
    "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd12:3456::1",
    "fe80::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
]  # fmt: skip


def test_open_internet_and_everything_else() -> None:
    closed, permitted = AddressGuard(private_networks=False), AddressGuard(private_networks=True)
    for text in PUBLIC:
        assert is_public(ip_address(text))
        closed.check_address(text, 80)
    for text in NOT_PUBLIC:
        assert not is_public(ip_address(text))
        permitted.check_address(text, 80)
        with pytest.raises(AddressRefusedError) as caught:
            closed.check_address(text, 80)
        assert "sources.private_networks" in caught.value.hint
    for host in ("localhost", "radio.localhost", "127.0.0.1", "::1", "fe80::1%eth0"):
        with pytest.raises(AddressRefusedError):  # without a lookup
            closed.check_host(host, 80)


def test_addresses_of_many_machines_or_none_where_it_must_be_one() -> None:
    guard = AddressGuard(private_networks=True, one_machine=True)
    for text in ("0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:224.0.0.1"):
        with pytest.raises(AddressRefusedError, match="No machine has"):
            guard.check_address(text, 80)
    guard.check_address("10.0.0.1", 80)


def test_the_own_address() -> None:
    guard = AddressGuard(private_networks=True)
    guard.check_address("127.0.0.1", 2333)  # its own port is known only later
    guard.add_own_address("127.0.0.1", 2333)
    for host in ("127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1", "localhost"):
        with pytest.raises(AddressRefusedError, match="own address"):
            guard.check_host(host, 2333)
        guard.check_host(host, 2334)
    guard.check_address("127.0.0.2", 2333)
    guard.check_address("10.0.0.1", 2333)


@pytest.mark.parametrize("own", ["0.0.0.0", "::", "node.example"])
def test_a_wildcard_is_every_address_of_this_machine(own: str) -> None:
    guard = AddressGuard(private_networks=True)
    guard.add_own_address(own, 2333)
    for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", _address_of_this_machine()):
        with pytest.raises(AddressRefusedError, match="own address"):
            guard.check_address(host, 2333)
    guard.check_address("203.0.113.77", 2333)


def _address_of_this_machine() -> str:
    """The address it would talk to others from; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:  # no network at all
            return "127.0.0.1"
        return str(probe.getsockname()[0])
