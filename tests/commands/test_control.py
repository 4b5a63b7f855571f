"""`tonearm skip`, `add`, `volume` and the like, on a running node: one line of what is now."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.audio_files import tone, wav
from tests.support.command import run_tonearm
from tests.support.e2e_players import IMPATIENT
from tests.support.running_node import RunningNode, shared_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    song = wav(tone(440, 100.0, 8_000, channels=1), 8_000)
    for name in "abcd":
        (tmp_path / f"{name}.wav").write_bytes(song)
    with shared_node(tmp_path, IMPATIENT) as process:
        yield process


def told(node: RunningNode, *words: str) -> str:
    """The line that is printed, or what is told on stderr with its exit code."""
    done = run_tonearm(*words, folder=node.folder, variables={"TONEARM_URL": node.url})
    assert "Traceback" not in done.stderr
    return done.stdout.rstrip("\n") or f"{done.returncode} {done.stderr}"


def waiting(node: RunningNode) -> str:
    lines = run_tonearm("queue", "--json", folder=node.folder, variables={"TONEARM_URL": node.url}).stdout.splitlines()
    return "".join(json.loads(line)["title"] for line in lines)


# Of the only player, so that its name may be left out; it stands still, and so does its position.
STORY = """
create radio a.wav b.wav                radio: loading a, 0:00, volume 100 %, 1 waiting
pause                                   radio: paused a, 0:00 of 1:40, volume 100 %, 1 waiting
seek 1:30                               radio: paused a, 1:30 of 1:40, volume 100 %, 1 waiting
seek radio -10                          radio: paused a, 1:20 of 1:40, volume 100 %, 1 waiting
seek 7                                  radio: paused a, 0:07 of 1:40, volume 100 %, 1 waiting
volume radio 80                         radio: paused a, 0:07 of 1:40, volume 80 %, 1 waiting
volume -5                               radio: paused a, 0:07 of 1:40, volume 75 %, 1 waiting
volume 50                               radio: paused a, 0:07 of 1:40, volume 50 %, 1 waiting
loop queue                              radio: paused a, 0:07 of 1:40, volume 50 %, loop queue, 1 waiting
loop radio none                         radio: paused a, 0:07 of 1:40, volume 50 %, 1 waiting
add c.wav d.wav                         radio: paused a, 0:07 of 1:40, volume 50 %, 3 waiting     bcd
add radio a.wav --next                  radio: paused a, 0:07 of 1:40, volume 50 %, 4 waiting     abcd
move 4 1                                radio: paused a, 0:07 of 1:40, volume 50 %, 4 waiting     dabc
remove 1 3                              radio: paused a, 0:07 of 1:40, volume 50 %, 2 waiting     ac
remove radio 3                          1 tonearm: The queue has no track 3; 2 tracks wait.
say b.wav --duck -12                    radio: paused a, 0:07 of 1:40, volume 50 %, 2 waiting
seek soon                               2 tonearm: `tonearm seek` does not take 'soon'; it takes 1:30 or 90, or +10
loop radio tracks                       2 tonearm: `tonearm loop` does not take 'tracks'; it takes none, track, queue.
move 1                                  2 tonearm: Too few arguments; see tonearm move --help.
skip raido                              1 tonearm: There is no player 'raido'; did you mean 'radio'? `tonearm players`
add lost.wav                            1 tonearm: There is no file 'lost.wav' here, and this node cannot search
create radio                            1 tonearm: A player 'radio' exists; `tonearm add` puts tracks into its queue
create hall ftp://hall/a.wav            1 tonearm:
clear                                   radio: paused a, 0:07 of 1:40, volume 50 %                -
stop                                    radio: idle, volume 50 %                                  -
delete radio                            radio: deleted
"""


def test_an_order_is_a_line_and_prints_what_is_now(node: RunningNode) -> None:
    for line in STORY.strip().splitlines():
        words, expected = line[:40].split(), line[40:]
        expected, _, queue = expected.partition("     ")
        shown = told(node, *words)
        if words[:2] == ["create", "radio"]:
            # It opens while the answer comes.
            asyncio.run(node.request("GET", "/v0/players/radio/queue?details=true&wait=1000"))
            shown = re.sub("(playing|loading|paused) a, 0:0[0-9] of 1:40", "loading a, 0:00", shown)
        elif words[0] == "pause":
            shown = re.sub("a, 0:0[0-9] of 1:40", "a, 0:00 of 1:40", shown)  # it has played until then
        assert shown.replace("loading a, 0", "paused a, 0").startswith(
            expected.strip().replace("loading a, 0", "paused a, 0")
        ), f"{' '.join(words)}: {shown}"
        if queue.strip():
            assert waiting(node) == queue.strip().replace("-", ""), words


def test_tracks_go_on_and_back_and_the_state_is_json(node: RunningNode) -> None:
    told(node, "create", "radio", "a.wav", "b.wav", "c.wav")
    assert "Put -- before" in told(node, "create", "-xhall")
    told(node, "create", "--", "-hall")
    assert told(node, "skip") == "2 tonearm: There are 2 players; name one: radio, -hall.\n"
    assert told(node, "status", "--", "-hall") == "-hall: idle, volume 100 %"
    assert told(node, "volume", "--", "-hall", "-20") == "-hall: idle, volume 80 %"
    assert json.loads(told(node, "delete", "--json", "--", "-hall")) == {"id": "-hall", "state": "deleted"}
    for order, title in (("skip", "b"), ("skip", "c"), ("previous", "b"), ("resume", "b")):
        state = json.loads(told(node, order, "--json"))
        assert (state["id"], state["track"]["info"]["title"], state["paused"]) == ("radio", title, False)
    assert told(node, "shuffle").startswith("radio: ")
