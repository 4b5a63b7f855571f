"""The rules of the voice gateway, by a clock that the tests turn: each row of the table of closes, and what a
connection does from Hello on."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from tonearm.core.voice import (
    CLOSES,
    ClosedBy,
    NodeReason,
    VoiceAction,
    VoiceClose,
    VoiceCredentials,
    VoiceEndpoint,
    VoicePhase,
    VoiceTarget,
)
from tonearm.core.voice_gateway import (
    LEFT,
    LOST,
    MODES,
    Describe,
    Dial,
    Discover,
    GiveUp,
    HangUp,
    Order,
    Orders,
    Pass,
    Say,
    VoiceGateway,
)

TARGET: Final = VoiceTarget(1, 2, 3, VoiceEndpoint("voice.test", 443))
SECRETS: Final = ("the-token", "the-session")
READY: Final = {"ssrc": 7, "ip": "10.0.0.1", "port": 5000, "modes": [*MODES, "xsalsa20_poly1305"]}
KEY: Final = bytes(range(32))
DESCRIPTION: Final = {"mode": MODES[0], "secret_key": list(KEY), "dave_protocol_version": 1}
TIMEOUT_S: Final = 10.0
INTERVAL_S: Final = 5.0


class Story:
    """A connection and its clock. `did` is what the last step ordered."""

    def __init__(self, chance: float = 0.5) -> None:
        self.now_s = 1000.0
        self.gateway = VoiceGateway(
            TARGET, VoiceCredentials(*SECRETS), dave_version=1, connect_timeout_s=TIMEOUT_S, chance=lambda: chance
        )
        self.did: list[Order] = list(self.gateway.start(self.now_s))

    def step(self, orders: Orders) -> "Story":
        self.did = list(orders)
        return self

    def gets(self, op: int, data: Any = None, **more: Any) -> "Story":
        return self.step(self.gateway.text(self.now_s, json.dumps({"op": op, "d": data, **more})))

    def lost(self, code: int | None = None, text: str = "") -> "Story":
        return self.step(self.gateway.lost(self.now_s, code, text))

    def lives(self, seconds: float) -> "Story":
        """Time passes, and each heartbeat is answered."""
        for _ in range(round(seconds)):
            for op, data in self.passes(1).said:
                assert op == 3
                self.gets(6, {"t": data["t"]})
        return self

    def passes(self, seconds: float) -> "Story":
        """Time passes, and what falls due is done."""
        end_s, self.did = self.now_s + seconds, []
        while (due_s := self.gateway.due_s) is not None and due_s <= end_s:
            self.now_s = max(self.now_s, due_s)
            self.did += self.gateway.tick(self.now_s)
        self.now_s = end_s
        return self

    @property
    def said(self) -> list[tuple[int, Any]]:
        messages = [json.loads(order.message) for order in self.did if isinstance(order, Say)]
        return [(message["op"], message["d"]) for message in messages]

    def reach(self, stage: int) -> "Story":
        """So many stages on from dialling: connected, greeted, ready, discovered, described."""
        steps: tuple[Callable[[], object], ...] = (
            self.gateway.opened,
            lambda: self.gets(8, {"heartbeat_interval": INTERVAL_S * 1000}),
            lambda: self.gets(2, READY),
            lambda: self.step(self.gateway.discovered("203.0.113.5", 50000)),
            lambda: self.gets(4, DESCRIPTION),
        )
        for step in steps[:stage]:
            step()
        return self

    def greeted(self) -> "Story":
        return self.reach(2)

    def live(self) -> "Story":
        return self.reach(5)

    def dials_again(self) -> None:
        """Time passes until it dials, or gives up."""
        while not self.close and Dial() not in self.did:
            self.passes(0.01)

    @property
    def close(self) -> VoiceClose | None:
        return self.gateway.close


# How it begins


def test_a_connection_from_hello_to_the_description() -> None:
    story = Story()
    assert story.did == [Dial()]
    story.greeted()
    identity = {"server_id": "1", "user_id": "3", "session_id": "the-session", "token": "the-token"}
    assert story.said == [(0, {**identity, "max_dave_protocol_version": 1})]
    assert story.gets(2, READY).did == [Discover(7, "10.0.0.1", 5000)]
    story.step(story.gateway.discovered("203.0.113.5", 50000))
    selected = {"address": "203.0.113.5", "port": 50000, "mode": "aead_aes256_gcm_rtpsize"}
    assert story.said == [(1, {"protocol": "udp", "data": selected})]
    assert story.gateway.phase.value == "connecting"
    assert story.gets(4, DESCRIPTION).did == [Describe(MODES[0], KEY, 1)]
    assert story.gateway.phase is VoicePhase.CONNECTED
    assert (story.gateway.ssrc, story.gateway.mode) == (7, MODES[0])
    assert Story().greeted().gets(2, {**READY, "modes": [MODES[1]]}).gateway.mode == MODES[1]


def test_a_server_that_breaks_the_protocol_is_left_for_good() -> None:
    for op, data, reason in (
        (8, {"heartbeat_interval": float("nan")}, "protocol"),
        (2, {**READY, "ssrc": -1}, "protocol"),
        (2, {**READY, "port": 0}, "protocol"),
        (2, {**READY, "modes": ["xsalsa20_poly1305", 7, []]}, "no_mode"),
        (4, {**DESCRIPTION, "mode": MODES[1]}, "protocol"),
        (4, {**DESCRIPTION, "secret_key": [256] * 32}, "protocol"),
        (4, {**DESCRIPTION, "dave_protocol_version": 2}, "protocol"),
        (4, [], "protocol"),
    ):
        story = Story().reach({8: 1, 2: 2, 4: 4}[op]).gets(op, data)
        close = VoiceClose(None, reason, ClosedBy.NODE, VoiceAction.FIX)
        assert story.did == [HangUp(LEFT), GiveUp(close)]
        assert (story.gateway.phase, story.close, story.gateway.due_s) == (VoicePhase.CLOSED, close, None)
        assert not story.passes(1000).did


def test_what_is_not_known_is_passed_over_with_a_count() -> None:
    ops = (0, 1, 2, 3, 4, 5, 7, 9, 12, 15, 18, 20, 99)
    for rubbish in (
        *("", "[", "null", "[]", '"x"', "{}", '{"op": "2"}', '{"op": -1}', '{"op": 1e3}', "[" * 100_000, "9" * 5000),
        *(json.dumps({"op": op, "d": {}}) for op in ops),
    ):
        story = Story().live()
        assert story.gateway.text(story.now_s, rubbish) == (), rubbish[:20]
        for binary in (b"\x00\x01", b"\x00\x01\x63x"):
            assert story.gateway.binary(story.now_s, binary) == ()
        assert (story.gateway.passed_over, story.gateway.phase) == (3, VoicePhase.CONNECTED)


@pytest.mark.parametrize("size", [0, 125, 100_000])
@pytest.mark.parametrize("of", ["texts", "pings"])
def test_a_flood_costs_the_connection(of: str, size: int) -> None:
    story = Story().live()
    for _ in range(5000):
        text = "[" + " " * size + "]"
        story.step(story.gateway.text(story.now_s, text) if of == "texts" else story.gateway.pinged(story.now_s, size))
        if story.close:
            break
    assert story.close == VoiceClose(None, "protocol", ClosedBy.NODE, VoiceAction.FIX)
    assert story.gateway.pinged(story.now_s, size) == ()


def test_what_is_said_of_members_and_encryption_goes_to_the_other_half() -> None:
    story = Story().live()
    for op in (11, 13, 21, 22, 24):
        assert story.gets(op, {"a": op}).did == [Pass(op, {"a": op})]
    for op in (25, 27, 29, 30):
        assert story.gateway.binary(story.now_s, b"\x01\x02" + bytes((op,)) + b"xyz") == (Pass(op, b"xyz"),)


# Heartbeats


def test_heartbeats_begin_at_random_within_the_interval_and_say_the_last_number() -> None:
    story = Story(chance=0.25).live()
    assert story.passes(1.2).said == []
    assert story.passes(0.1).said == [(3, {"t": 1_001_250, "seq_ack": -1})]
    story.gets(6, {"t": 1_001_250})
    assert story.gateway.ping_ms == 50
    story.gets(11, {}, seq=65_535)
    assert story.passes(5).said[0][1]["seq_ack"] == 65_535
    story.gateway.binary(story.now_s, b"\x00\x04\x1dabc")  # numbers begin anew after 65535
    story.gets(6, {"t": 0})
    assert story.passes(5).said[0][1]["seq_ack"] == 4
    assert story.gateway.ping_ms == 50  # the answer to another heartbeat says nothing


def test_two_heartbeats_without_an_answer_are_a_lost_socket() -> None:
    story = Story(chance=1.0).live()
    assert [op for op, _ in story.passes(INTERVAL_S * 3 - 0.1).said] == [3, 3]
    assert story.passes(0.2).did == [HangUp(LOST), Dial()]
    assert story.gateway.phase is VoicePhase.RESUMING


# How a socket ends


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 4015, 4999])
def test_a_lost_socket_is_resumed_with_the_last_number(code: int | None) -> None:
    story = Story().live().gets(11, {}, seq=9).lost(code)
    assert story.did == [Dial()]
    assert story.gateway.phase is VoicePhase.RESUMING
    story.greeted()
    assert story.said == [(7, {"server_id": "1", "session_id": "the-session", "token": "the-token", "seq_ack": 9})]
    assert story.gets(11, {"missed": 1}, seq=10).did == [Pass(11, {"missed": 1})]
    story.gets(9)
    assert (story.gateway.phase, story.gateway.resumes, story.gateway.ssrc) == (VoicePhase.CONNECTED, 1, 7)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_after_five_vain_resumes_the_bot_has_to_join_anew(chance: float) -> None:
    story, waits = Story(chance).live().lost(1006), []
    while not story.close:
        began_s = story.now_s
        story.step(story.gateway.dial_failed(story.now_s, NodeReason.UNREACHABLE))
        story.dials_again()
        waits.append(story.now_s - began_s)
    assert waits == pytest.approx([(0.8 + 0.4 * chance) * delay for delay in (1, 2, 4, 8, 0)], abs=0.02)
    assert story.close == VoiceClose(None, "unreachable", ClosedBy.NODE, VoiceAction.REJOIN)


@pytest.mark.parametrize(("lives_s", "resumes"), [(40, 20), (0, 5)])
def test_a_connection_has_all_its_tries_again_when_it_has_lived_a_while(lives_s: int, resumes: int) -> None:
    """A server that takes each resume and cuts it is not tried for ever."""
    story = Story().live()
    for _ in range(20):
        story.lost(1006)
        if story.close:
            break
        story.dials_again()
        story.greeted().gets(9)
        story.lives(lives_s)
    assert story.gateway.resumes == resumes
    lost = VoiceClose(1006, "the connection was lost", ClosedBy.SERVER, VoiceAction.REJOIN)
    assert story.close == (None if lives_s else lost)


@pytest.mark.parametrize("code", [4006, 4009, 4011, 4020])
def test_a_refused_resume_is_answered_by_one_new_session(code: int) -> None:
    story = Story().live().gets(11, {}, seq=9).lost(None).greeted().lost(code)
    assert story.did == [Dial()]
    assert (story.gateway.phase, story.gateway.ssrc) == (VoicePhase.CONNECTING, None)
    story.greeted()
    assert [op for op, _ in story.said] == [0]
    story.passes(2.6)
    assert story.said == [(3, {"t": 1_002_500, "seq_ack": -1})]  # numbers begin anew
    story.lost(code)
    assert story.close is not None
    assert (story.close.code, story.close.action) == (code, VoiceAction.REJOIN)


@pytest.mark.parametrize("code", sorted(set(CLOSES) - {1001, 1006, 4015}))
@pytest.mark.parametrize("when", ["greeted", "live"])
def test_other_closes_are_not_fought(code: int, when: str) -> None:
    story = getattr(Story(), when)().lost(code, "Discord's words")
    assert story.did == [GiveUp(VoiceClose(code, "Discord's words", ClosedBy.SERVER, CLOSES[code].action))]
    assert not story.passes(1000).did


@pytest.mark.parametrize("stage", range(5))
def test_what_takes_too_long_is_tried_five_times(stage: int) -> None:
    story, dials = Story(), 0
    while not story.close:
        dials += Dial() in story.did
        story.reach(stage)
        assert all(isinstance(order, Say) for order in story.passes(TIMEOUT_S - 0.1).did)
        story.passes(0.2).dials_again()
    assert dials == 5
    assert story.close == VoiceClose(None, "timeout", ClosedBy.NODE, VoiceAction.REJOIN)


def test_a_server_that_does_not_answer_over_udp_is_tried_twice() -> None:
    story, dials = Story(), 0
    while not story.close:
        dials += Dial() in story.did
        story.greeted().gets(2, READY).step(story.gateway.undiscovered(story.now_s))
        assert story.did[0] == HangUp(LEFT)
        assert story.gateway.undiscovered(story.now_s) == ()  # it has given up this try
        story.dials_again()
    assert dials == 2
    assert story.close == VoiceClose(None, "udp_blocked", ClosedBy.NODE, VoiceAction.FIX)


@pytest.mark.parametrize("reason", [NodeReason.TLS, NodeReason.REDIRECT, NodeReason.ENDPOINT_BLOCKED])
def test_a_server_that_the_node_refuses_is_not_dialled_again(reason: NodeReason) -> None:
    story = Story()
    story.step(story.gateway.dial_failed(story.now_s, reason))
    assert story.close == VoiceClose(None, reason, ClosedBy.NODE, VoiceAction.FIX)


# What it says


def test_speaking_is_said_once_and_again_after_a_resume() -> None:
    story = Story().live()
    speaking = [(5, {"speaking": 1, "delay": 0, "ssrc": 7})]
    assert story.step(story.gateway.speaking(True)).said == speaking
    assert story.step(story.gateway.speaking(True)).said == []
    story.lost(None).greeted()
    assert story.gets(9).said == speaking
    story.lost(None)
    assert story.step(story.gateway.speaking(False)).said == []
    story.passes(2).greeted()
    assert story.gets(9).said == [(5, {"speaking": 0, "delay": 0, "ssrc": 7})]  # it has heard of the 1 only
    assert story.lost(None).passes(3).greeted().gets(9).said == []


def test_what_the_other_half_says_without_a_socket_waits_for_the_resume() -> None:
    story = Story().live().lost(None)
    assert story.gateway.say((23, {"transition_id": 5})) == story.gateway.say(b"\x1ccommit") == ()
    story.greeted().gets(9)
    assert story.did[-2:] == [Say('{"op":23,"d":{"transition_id":5}}'), Say(b"\x1ccommit")]
    assert story.gateway.say(b"\x1amore") == (Say(b"\x1amore"),)


def test_leaving_says_that_nobody_speaks_and_ends_the_session() -> None:
    story = Story().live()
    story.gateway.speaking(True)
    assert story.step(story.gateway.leave()).said == [(5, {"speaking": 0, "delay": 0, "ssrc": 7})]
    assert story.did[-1] == HangUp(LEFT)
    assert (story.gateway.phase, story.close) == (VoicePhase.NONE, None)
    assert story.gateway.leave() == story.gateway.lost(story.now_s, 4014) == story.gateway.fail(NodeReason.TLS) == ()


def test_a_lost_process_takes_a_new_session_with_the_same_values() -> None:
    story = Story().live()
    story.step(story.gateway.new_session(story.now_s))
    assert story.did == [HangUp(LEFT), Dial()]
    assert story.gateway.phase is VoicePhase.CONNECTING
    assert [op for op, _ in story.greeted().said] == [0]


def test_no_order_shows_the_secrets() -> None:
    story = Story()
    shown = repr(story.greeted().did)
    story.gets(2, READY)
    story.gateway.discovered("203.0.113.5", 50000)
    shown += repr(story.gets(4, DESCRIPTION).did) + repr(story.lost(None).greeted().did)
    assert not [secret for secret in (*SECRETS, str(KEY), str(list(KEY))) if secret in shown]
