"""The dashboard in Chromium: the voice of a player in a Discord channel, and what the bot has to do about it."""

from pathlib import Path

from tests.support.audio_files import tone, wav
from tests.support.browser import browsing
from tests.support.certificate import make_certificate
from tests.support.e2e_players import create, until_state
from tests.support.running_node import running_node
from tests.support.voice_players import CONFIG, join
from tests.support.voice_server import voice_server


async def test_a_voice_shows_how_it_is_doing_and_can_be_left(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(1000, 120.0)))
    certificate = make_certificate(tmp_path / "voice.pem")
    variables = {"SSL_CERT_FILE": str(certificate)}
    async with (
        voice_server(certificate, ears=(5,)) as server,
        running_node(tmp_path, CONFIG, variables=variables) as node,
    ):
        await create(node, "lobby", "song.wav")
        session = await join(node, server, "lobby")
        now = await until_state(node, "lobby", lambda now: now["voice"]["dave"]["ready"])
        async with browsing(f"{node.url}/dashboard/#/0/lobby/details") as browser:
            await browser.shows("Discord voice")
            await browser.shows("connected")
            await browser.shows(now["voice"]["dave"]["privacyCode"])
            await session.close(4014, "thrown out")
            await browser.shows("4014: thrown out. The bot waits for what Discord says next.")
            await browser.button("Leave the channel").click()
            await until_state(node, "lobby", lambda now: now["voice"] is None)
            await browser.page.get_by_role("button", name="Leave the channel").wait_for(state="detached")
