import pytest

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import request
from tonearm.server.app import BindError, EdgeSettings, build_app, listen_on


async def test_port_0_lets_the_system_choose(port: int) -> None:
    assert port > 0
    assert (await request(port, "GET", "/info")).status == 200


async def test_a_port_in_use_is_told(node: StillNode, port: int) -> None:
    with pytest.raises(BindError, match=rf"127\.0\.0\.1:{port}.*server\.port"):
        await listen_on(build_app(node, EdgeSettings()), "127.0.0.1", port)


async def test_an_address_of_another_machine_is_told(node: StillNode) -> None:
    with pytest.raises(BindError, match=r"192\.0\.2\.1"):
        await listen_on(build_app(node, EdgeSettings()), "192.0.2.1", 0)


async def test_a_port_is_free_again_after_closing(node: StillNode) -> None:
    async with running_edge(node) as port:
        assert (await request(port, "GET", "/info")).status == 200
    server = await listen_on(build_app(node, EdgeSettings()), "127.0.0.1", port)
    await server.close()
