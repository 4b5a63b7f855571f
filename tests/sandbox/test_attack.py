"""A decoder and a resolver process that were taken over, and what they get at: nothing.

The attack goes on in a thread that was begun after the filter, inside of the processes of a real node.
"""

from pathlib import Path
from urllib.parse import quote

from msgspec import structs

from tests.sources.resolver.test_page_resolver import resolving
from tests.support import attack
from tests.support.audio_files import music, pcm_of, wav
from tests.support.decoder_driver import DecoderDriver, open_order
from tests.support.e2e_players import PATIENT, create, hear_to_end
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.hostile import Hostile, got_through
from tests.support.media_server import MediaServer, media
from tests.support.player_script import player_script
from tests.support.resolving import fake_sites
from tests.support.running_node import running_node
from tonearm.decoder.messages import Failed, Opened
from tonearm.sandbox.report import SandboxMode, SandboxReport

MUSIC = music(0.2)

# What works without a sandbox, whoever runs the test: else the attack would prove nothing.
WORKS_OTHERWISE = {
    "a thread", "open for reading", "open for writing", "stat", "listdir", "chdir", "the node's environment",
    "memfd", "fchmod", "ftruncate", "futimens", "flock", "who gets a descriptor's signals", "an IPv4 TCP socket",
    "connect", "bind", "TCP Fast Open", "an addressed message", "UDP", "a Unix socket", "netlink", "socketpair",
    "pipe", "execve", "fork", "clone", "kill", "kill its group", "tkill", "tgkill", "sigqueue", "writable code",
    "anonymous code", "memory made executable", "raise a limit", "prctl", "setuid", "personality",
}  # fmt: skip


def test_the_attack_works_without_a_sandbox(tmp_path: Path) -> None:
    """And the process works on afterwards."""
    song = tmp_path / "song.wav"
    song.write_bytes(wav(MUSIC))
    driver = DecoderDriver(sandbox=SandboxMode.OFF, variables=Hostile(tmp_path / "hostile").variables)
    try:
        assert driver.ready() == SandboxReport()
        driver.open_session()
        order = open_order(1, 1, song.stat().st_size, has_descriptor=True)
        driver.send_with_descriptor_of(structs.replace(order, name="attack.wav"), song)
        assert got_through(driver.wait_for(Failed).failure.message) >= WORKS_OTHERWISE
        driver.open_file(song, source=2)
        assert driver.wait_for(Opened, source=2).facts.length_ms == 200
    finally:
        driver.close()


async def test_the_attack_works_in_a_resolver_without_a_sandbox() -> None:
    async with MediaServer() as server, resolving(fake_sites(sandbox=SandboxMode.OFF)) as it:
        told = (await it.failure(server.url("/fake/refused"))).message.partition("refused: ")[2]
        assert not WORKS_OTHERWISE & set(told.rstrip(".").split(", "))
        assert it.pages.sandboxes == [SandboxReport()]


async def test_nothing_gets_out_of_the_processes_of_a_node_that_plays_on(tmp_path: Path) -> None:
    config = PATIENT + '[resolver]\nenabled = true\nsites = ["fake", "youtube"]\nsandbox = "required"\n'
    config += f'[state]\npath = "{tmp_path}/state"\n'
    config += '[decoder]\nsandbox = "required"\n'
    for name in ("attack.wav", "song.wav"):
        (tmp_path / name).write_bytes(wav(MUSIC))
    hostile = Hostile(tmp_path / "hostile")
    async with MediaServer() as server, running_node(tmp_path, config, variables=hostile.variables) as node:
        await eventually(lambda: "decoders: sandbox seccomp" in "".join(node.log), "the decoders' level is told")
        await eventually(lambda: "resolvers: sandbox seccomp" in "".join(node.log), "the resolvers' level is told")

        # A player's process.
        await create(node, "p", "attack.wav")
        async with following(node, "p", "?since=0") as tape, listening(node, "p"):
            failed = await tape.until("TrackException")
        assert got_through(failed["error"]["message"]) == {"a thread"}

        # That of loadtracks.
        answer = await node.request("GET", "/v0/loadtracks?identifier=attack.wav")
        assert answer.json()["loadType"] == "empty"

        def lines() -> list[str]:
            return [line for line in node.log if "got through: " in line and "cannot be loaded" in line]

        await eventually(lines, "the log says what came of it")
        (line,) = lines()
        assert got_through(line.strip().removesuffix(" x")) == {"a thread"}  # the failure's hint comes last

        # A resolver's.
        page = quote(server.url("/fake/attack"), safe="")
        refused = await node.request("GET", f"/v0/resolve?url={page}")
        assert refused.status == 400
        through = got_through(refused.json()["message"].partition(". Open the page")[0])
        has_landlock = "resolvers: sandbox seccomp + landlock" in "".join(node.log)
        may = attack.RESOLVERS_MAY if has_landlock else attack.RESOLVERS_MAY_WITHOUT_LANDLOCK
        assert attack.RESOLVERS_MAY | {"a thread"} <= through <= may | {"a thread"}

        # And that of a process that prepares a script.
        for number, script in enumerate((player_script(mark="!"), "ATTACK"), 1):
            answer_with = media(script.encode(), content_type="text/javascript", ranges=False)
            server.serve(f"/s/player/{number:08}/player_ias.vflset/en_US/base.js", answer_with)
        pages = [quote(server.url(f"/fake/script?{number}"), safe="") for number in (1, 2)]
        solved, failed_script = [await node.request("GET", f"/v0/resolve?url={page}") for page in pages]
        assert (solved.status, solved.body.decode()) == (200, server.url("/song.mp3"))
        assert got_through(failed_script.json()["message"].partition(" (Requested")[0]) == {"a thread"}
        assert len(list((tmp_path / "state-scripts").iterdir())) == 1  # for the next start

        heard = await hear_to_end(node, "q", "song.wav")
        assert heard.pcm[: len(pcm_of(MUSIC))] == pcm_of(MUSIC)
