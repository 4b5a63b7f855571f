"""The configuration as a value."""

import pytest
from pydantic import ValidationError

from tonearm.config.schema import Config


def config(**sections: object) -> Config:
    return Config.model_validate(sections)


def test_without_anything_the_node_is_private_to_this_machine() -> None:
    defaults = Config()
    assert (defaults.server.host, defaults.server.port) == ("127.0.0.1", 2333)
    assert defaults.server.password.get_secret_value() == ""
    assert defaults.allows_files
    assert defaults.allows_private_networks
    assert not defaults.resolver.enabled


def test_auto_allows_files_and_private_addresses_on_loopback_only() -> None:
    for hosts, is_loopback in (
        (("127.0.0.1", "127.8.8.8", "::1", "LOCALHOST"), True),
        (("0.0.0.0", "::", "192.168.1.4", "localhost.example.org", "node"), False),
    ):
        for bound in (config(server={"host": host}) for host in hosts):
            assert bound.server.listens_on_loopback_only is is_loopback
            assert bound.allows_files is is_loopback
            assert bound.allows_private_networks is is_loopback


def test_files_and_private_networks_can_be_said_outright() -> None:
    public = config(server={"host": "0.0.0.0"}, sources={"files": ["/srv/music"], "private_networks": True})
    assert (public.allows_files, public.allows_private_networks) == (True, True)
    own = config(sources={"files": [], "private_networks": False})
    assert (own.allows_files, own.allows_private_networks) == (False, False)


def test_the_password_is_not_in_any_rendering() -> None:
    secret = config(server={"password": "open sesame"})
    assert "sesame" not in f"{secret!r} {secret!s} {secret.model_dump()} {secret.model_dump_json()}"


def test_voice_has_its_usual_servers_and_says_its_ports() -> None:
    assert Config().voice.endpoints == ("*.discord.media",)
    assert Config().voice.udp_port_range is None
    section = {"endpoints": ["*.Discord.Media", "127.0.0.1"], "udp_bind": "192.0.2.7", "udp_ports": "50000-50999"}
    voice = config(voice=section).voice
    assert voice.endpoints == ("*.discord.media", "127.0.0.1")
    assert voice.udp_port_range == range(50_000, 51_000)


def test_a_wrong_key_of_voice_is_refused() -> None:
    wrong: dict[str, tuple[object, ...]] = {
        "enabled": ("yes", 1),
        "endpoints": ([], ["a:443"], ["wss://a"], ["*"], "*.discord.media"),
        "udp_bind": ("eth0", "192.0.2.7:5000", 7),
        "udp_ports": ("50000", "2-1", "0-9", "1-65536", "a-b", 50_000),
    }
    for key, value in ((key, value) for key, values in wrong.items() for value in values):
        with pytest.raises(ValidationError):
            config(voice={key: value})
