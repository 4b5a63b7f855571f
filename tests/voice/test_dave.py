"""The end-to-end encryption of a call: the bot's side of it, with other members as ears, of libdave."""

import random
import struct
from dataclasses import dataclass, field
from typing import Any

import dave
import davey
import pytest

from tests.support.dave_group import ExternalSender, split_commit_and_welcome
from tonearm.voice.process.dave import DaveCall

BOT, CHANNEL, SSRC = 3, 2, 4711
PACKET = b"\xfc a packet of opus"


class DaveEar:
    """Another member, by libdave."""

    def __init__(self, user_id: int, sender: ExternalSender) -> None:
        self.user_id = user_id
        self._session = dave.Session(None)
        self._session.init(1, CHANNEL, str(user_id), None)
        self._session.set_external_sender(sender.package)
        self._decryptor = dave.Decryptor()

    def key_package(self) -> bytes:
        package = self._session.get_marshalled_key_package()
        assert package is not None
        return package

    def proposals(self, proposals: bytes, users: set[str]) -> bytes | None:
        return self._session.process_proposals(proposals, users)

    def commit(self, commit: bytes) -> None:
        assert isinstance(self._session.process_commit(commit), dict)

    def welcome(self, welcome: bytes, users: set[str]) -> None:
        assert self._session.process_welcome(welcome, users) is not None

    def listen(self) -> None:
        ratchet = self._session.get_key_ratchet(str(BOT))
        assert ratchet is not None
        self._decryptor = dave.Decryptor()  # which has no older keys
        self._decryptor.transition_to_key_ratchet(ratchet)

    def hear(self, packet: bytes) -> bytes | None:
        return self._decryptor.decrypt(dave.MediaType.audio, packet)

    def code(self) -> str:
        authenticator = self._session.get_last_epoch_authenticator()
        assert authenticator is not None
        return davey.generate_displayable_code(authenticator, 30, 5)


@dataclass
class Bot:
    """The call, and what it said to the voice server."""

    sender: ExternalSender = field(default_factory=lambda: ExternalSender(CHANNEL))
    version: int = 1
    said: list[tuple[int, Any]] = field(default_factory=list)
    users: set[str] = field(default_factory=lambda: {str(BOT)})
    epoch: int = 0
    transition: int = 0

    def __post_init__(self) -> None:
        self.call = DaveCall(BOT, CHANNEL, SSRC, self.version, lambda op, data: self.said.append((op, data)))

    def take(self, op: int, data: Any, now_s: float = 0.0) -> None:
        self.call.take(op, data, now_s)

    def of(self, op: int) -> list[Any]:
        return [data for each, data in self.said if each == op]

    def announce(self, user_id: int) -> None:
        self.users.add(str(user_id))
        self.take(11, {"user_ids": [str(user_id)]})

    def is_asked_to_add(self, ear: DaveEar) -> tuple[bytes, bytes]:
        """Commit and welcome of the bot's answer."""
        self.take(27, self.sender.proposals(self.epoch, add=(ear.key_package(),)))
        commit, welcome = split_commit_and_welcome(self.of(28)[-1])
        assert welcome is not None
        return commit, welcome

    def commits(self, commit: bytes, *, executes: bool = True) -> None:
        """The server takes this commit."""
        self.transition += 1
        self.epoch += 1
        self.take(29, struct.pack(">H", self.transition) + commit)
        if executes:
            self.take(22, {"transition_id": self.transition})

    def adds(self, ear: DaveEar) -> None:
        """The bot adds somebody to its group."""
        self.announce(ear.user_id)
        commit, welcome = self.is_asked_to_add(ear)
        self.commits(commit)
        ear.welcome(welcome, self.users)
        ear.listen()

    def joins(self, founder: DaveEar, *, now_s: float = 0.0, damage: bool = False) -> None:
        """Comes into the group that an ear has founded."""
        self.announce(founder.user_id)
        answer = founder.proposals(self.sender.proposals(0, add=(self.of(26)[-1],)), self.users)
        assert answer is not None
        commit, welcome = split_commit_and_welcome(answer)
        assert welcome is not None
        founder.commit(commit)
        self.transition, self.epoch = self.transition + 1, 1
        if damage:
            welcome = welcome[:-9] + bytes(9)
        self.take(30, struct.pack(">H", self.transition) + welcome, now_s)

    def sends(self) -> bytes:
        packet = self.call.encrypt(PACKET)
        assert packet is not None
        return packet

    @property
    def is_mute(self) -> bool:
        return self.call.encrypt(PACKET) is None and not self.call.is_ready


@pytest.fixture
def bot() -> Bot:
    bot = Bot()
    bot.take(25, bot.sender.package)
    return bot


def test_a_group_that_the_bot_founds(bot: Bot) -> None:
    assert bot.is_mute  # alone
    ear = DaveEar(5, bot.sender)
    bot.adds(ear)
    assert ear.hear(bot.sends()) == PACKET
    assert PACKET[2:] not in bot.sends()
    assert bot.of(23) == [{"transition_id": 1}]
    assert (bot.call.version, bot.call.is_ready, bot.call.epoch) == (1, True, 1)


def test_a_group_that_others_found(bot: Bot) -> None:
    ear = DaveEar(5, bot.sender)
    bot.joins(ear)
    assert bot.is_mute  # until the server says so
    bot.take(22, {"transition_id": 1})
    ear.listen()
    assert ear.hear(bot.sends()) == PACKET


def as_shown(code: str) -> str:
    """As a client of Discord shows it: six groups of five digits."""
    return " ".join(code[at : at + 5] for at in range(0, 30, 5))


def test_people_see_one_code(bot: Bot) -> None:
    ears = [DaveEar(5, bot.sender), DaveEar(6, bot.sender)]
    bot.adds(ears[0])
    assert bot.call.privacy_code == as_shown(ears[0].code())
    commit = _added(bot, ears[1], [ears[0]])
    bot.commits(commit)
    assert bot.call.privacy_code == as_shown(ears[0].code()) == as_shown(ears[1].code())


def _added(bot: Bot, newcomer: DaveEar, members: list[DaveEar]) -> bytes:
    """The bot's commit, which the others take up already."""
    bot.announce(newcomer.user_id)
    proposals = bot.sender.proposals(bot.epoch, add=(newcomer.key_package(),))
    for member in members:
        member.proposals(proposals, bot.users)
    bot.take(27, proposals)
    commit, welcome = split_commit_and_welcome(bot.of(28)[-1])
    assert welcome is not None
    for member in members:
        member.commit(commit)
    newcomer.welcome(welcome, bot.users)
    return commit


def test_a_commit_of_somebody_else_wins(bot: Bot) -> None:
    first, second = DaveEar(5, bot.sender), DaveEar(6, bot.sender)
    bot.adds(first)
    bot.announce(6)
    proposals = bot.sender.proposals(1, add=(second.key_package(),))
    bot.take(27, proposals)
    answer = first.proposals(proposals, bot.users)
    assert answer is not None
    commit, welcome = split_commit_and_welcome(answer)
    assert welcome is not None
    first.commit(commit)
    second.welcome(welcome, bot.users)
    bot.commits(commit)
    first.listen()
    second.listen()
    packet = bot.sends()
    assert first.hear(packet) == second.hear(packet) == PACKET


def test_keys_change_when_the_server_says_so_and_not_before(bot: Bot) -> None:
    first = DaveEar(5, bot.sender)
    bot.adds(first)
    commit = _added(bot, DaveEar(6, bot.sender), [first])
    bot.commits(commit, executes=False)
    assert first.hear(bot.sends()) == PACKET  # by the old key
    bot.take(22, {"transition_id": bot.transition})
    assert first.hear(bot.sends()) is None
    first.listen()
    assert first.hear(bot.sends()) == PACKET


def test_each_transition_has_the_keys_of_its_own_epoch(bot: Bot) -> None:
    """Two are announced before the first one happens."""
    first, second = DaveEar(5, bot.sender), DaveEar(6, bot.sender)
    bot.adds(first)
    bot.commits(_added(bot, second, [first]), executes=False)
    first.listen()
    third = DaveEar(7, bot.sender)
    bot.commits(_added(bot, third, [first, second]), executes=False)
    bot.take(22, {"transition_id": 2})
    assert first.hear(bot.sends()) == PACKET
    bot.take(22, {"transition_id": 3})
    third.listen()
    assert third.hear(bot.sends()) == PACKET


def test_a_new_member_hears_the_bot_after_many_transitions_that_never_happened(bot: Bot) -> None:
    for transition in range(1000, 1200):
        bot.take(21, {"transition_id": transition, "protocol_version": 1})
    ear = DaveEar(5, bot.sender)
    bot.adds(ear)
    assert ear.hear(bot.sends()) == PACKET


def test_somebody_leaves(bot: Bot) -> None:
    first, second = DaveEar(5, bot.sender), DaveEar(6, bot.sender)
    bot.adds(first)
    bot.commits(_added(bot, second, [first]))
    second.listen()
    bot.take(13, {"user_id": "6"})
    proposals = bot.sender.proposals(2, remove=(2,))
    first.proposals(proposals, {"3", "5"})
    bot.take(27, proposals)
    commit, welcome = split_commit_and_welcome(bot.of(28)[-1])
    assert welcome is None
    first.commit(commit)
    bot.commits(commit)
    first.listen()
    packet = bot.sends()
    assert (first.hear(packet), second.hear(packet)) == (PACKET, None)


@pytest.mark.parametrize("is_known", [False, True])
def test_only_people_who_were_announced_are_added(bot: Bot, is_known: bool) -> None:
    ear = DaveEar(5, bot.sender)
    if is_known:
        bot.announce(5)
    bot.take(27, bot.sender.proposals(0, add=(ear.key_package(),)))
    assert len(bot.of(28)) == is_known
    assert bot.is_mute


def test_a_welcome_into_a_group_with_a_stranger_is_refused(bot: Bot) -> None:
    founder = DaveEar(5, bot.sender)
    answer = founder.proposals(bot.sender.proposals(0, add=(bot.of(26)[-1],)), {"3", "5"})
    assert answer is not None
    _, welcome = split_commit_and_welcome(answer)
    assert welcome is not None
    bot.take(30, b"\0\7" + welcome)  # nobody said that 5 is there
    bot.take(22, {"transition_id": 7})
    assert bot.is_mute
    assert bot.of(31) == [{"transition_id": 7}]


def test_proposals_of_somebody_who_is_not_the_server_are_refused(bot: Bot) -> None:
    bot.announce(5)
    bot.take(27, ExternalSender(CHANNEL).proposals(0, add=(DaveEar(5, bot.sender).key_package(),)))
    assert not bot.of(28)


def test_a_welcome_that_cannot_be_worked_up_is_asked_for_again(bot: Bot) -> None:
    bot.joins(DaveEar(5, bot.sender), damage=True)
    assert bot.is_mute
    assert bot.of(31) == [{"transition_id": 1}]
    assert [op for op, _ in bot.said] == [26, 31, 26]
    bot.take(22, {"transition_id": 1})
    assert bot.is_mute
    founder = DaveEar(5, bot.sender)
    bot.joins(founder, now_s=0.1)
    bot.take(22, {"transition_id": 2})
    founder.listen()
    assert founder.hear(bot.sends()) == PACKET


def test_a_commit_that_cannot_be_worked_up_makes_it_mute(bot: Bot) -> None:
    bot.adds(DaveEar(5, bot.sender))
    bot.take(29, b"\0\5" + bytes(80))
    assert bot.is_mute
    assert bot.of(31) == [{"transition_id": 5}]
    bot.take(22, {"transition_id": 5})
    assert bot.is_mute


def test_it_asks_for_healing_once_in_two_seconds(bot: Bot) -> None:
    bot.adds(DaveEar(5, bot.sender))
    for number in range(100):
        bot.take(30, struct.pack(">H", number) + b"rubbish", 10.0 + number / 100)
    assert bot.of(31) == [{"transition_id": 0}]
    assert bot.call.heals_at_s == 12.0
    bot.call.heal(11.9)
    assert len(bot.of(31)) == 1
    bot.call.heal(12.0)
    assert bot.of(31)[1:] == [{"transition_id": 99}]
    assert bot.call.heals_at_s is None


@pytest.mark.parametrize("heals", ["by a welcome", "by a new group"])
def test_what_has_healed_by_then_is_not_torn_apart(bot: Bot, heals: str) -> None:
    bot.take(30, b"\0\1rubbish", 10.0)
    bot.take(30, b"\0\2rubbish", 10.1)  # waits for its turn
    if heals == "by a new group":
        bot.take(24, {"epoch": 1, "protocol_version": 1}, 10.2)
    founder = DaveEar(5, bot.sender)
    bot.transition = 2
    bot.joins(founder, now_s=10.3)
    bot.take(22, {"transition_id": 3})
    bot.call.heal(99.0)
    assert len(bot.of(31)) == 1
    founder.listen()
    assert founder.hear(bot.sends()) == PACKET


def test_a_call_that_empties_and_fills_again(bot: Bot) -> None:
    bot.adds(DaveEar(5, bot.sender))
    bot.take(13, {"user_id": "5"})
    bot.take(24, {"epoch": 1, "protocol_version": 1})
    assert bot.is_mute
    assert bot.call.privacy_code is None
    assert len(bot.of(26)) == 2
    bot.epoch = 0
    ear = DaveEar(6, bot.sender)
    bot.adds(ear)
    assert ear.hear(bot.sends()) == PACKET


def test_down_to_none_and_up_again(bot: Bot) -> None:
    ear = DaveEar(5, bot.sender)
    bot.adds(ear)
    bot.take(21, {"transition_id": 40, "protocol_version": 0})
    assert bot.of(23)[-1] == {"transition_id": 40}
    assert ear.hear(bot.sends()) == PACKET
    bot.take(22, {"transition_id": 40})
    assert bot.sends() == PACKET  # no encryption is wanted
    assert (bot.call.version, bot.call.is_ready) == (0, False)
    bot.take(24, {"epoch": 1, "protocol_version": 1})
    assert bot.sends() == PACKET
    assert len(bot.of(26)) == 2
    bot.epoch = 0
    again = DaveEar(6, bot.sender)
    bot.adds(again)
    assert bot.call.version == 1
    assert again.hear(bot.sends()) == PACKET


def test_transition_zero_happens_at_once(bot: Bot) -> None:
    bot.announce(5)
    ear = DaveEar(5, bot.sender)
    commit, welcome = bot.is_asked_to_add(ear)
    bot.take(29, b"\0\0" + commit)
    ear.welcome(welcome, bot.users)
    ear.listen()
    assert ear.hear(bot.sends()) == PACKET
    assert bot.of(23) == []


def test_unknown_and_repeated_transitions_change_nothing(bot: Bot) -> None:
    ear = DaveEar(5, bot.sender)
    bot.adds(ear)
    for transition in (1, 0, 99, -1, 2**16, "1", None, True):
        bot.take(22, {"transition_id": transition})
    assert ear.hear(bot.sends()) == PACKET


def test_proposals_that_were_revoked_are_not_committed(bot: Bot) -> None:
    """The bot's second answer adds only who is left."""
    first = DaveEar(5, bot.sender)
    bot.announce(5)
    bot.take(27, bot.sender.proposals(0, add=(first.key_package(),)))
    bot.take(27, b"\1\1\0")  # of a reference that nobody knows
    assert len(bot.of(28)) == 1
    commit, welcome = split_commit_and_welcome(bot.of(28)[0])
    bot.commits(commit)
    assert welcome is not None
    first.welcome(welcome, bot.users)
    first.listen()
    assert first.hear(bot.sends()) == PACKET


@pytest.mark.parametrize("op", [25, 27, 29, 30])
def test_damaged_messages_neither_end_it_nor_let_a_packet_out(op: int) -> None:
    numbers = random.Random(op)
    for cut in (0, 1, 2, 3, 4, 7, 20, None):
        bot = Bot()
        if op != 25:
            bot.take(25, bot.sender.package)
        bot.announce(5)
        message = bytearray(_valid(bot, op)[:cut])
        for _ in range(20):
            bot.take(op, bytes(message))
            assert bot.is_mute
            if message:
                message[numbers.randrange(len(message))] = numbers.randrange(256)


def _valid(bot: Bot, op: int) -> bytes:
    ear = DaveEar(5, bot.sender)
    if op == 25:
        return bot.sender.package
    if op == 27:
        return bot.sender.proposals(0, add=(ear.key_package(),))
    if op == 29:
        return b"\0\1" + bot.is_asked_to_add(ear)[0]
    answer = ear.proposals(bot.sender.proposals(0, add=(bot.of(26)[-1],)), bot.users)
    assert answer is not None
    _, welcome = split_commit_and_welcome(answer)
    assert welcome is not None
    return b"\0\1" + welcome


@pytest.mark.parametrize("value", [None, True, -1, 2**80, 1.5, "1", [], {}])
def test_objects_of_another_shape_change_nothing(bot: Bot, value: object) -> None:
    ear = DaveEar(5, bot.sender)
    bot.adds(ear)
    said = list(bot.said)
    for op in (11, 13, 21, 22, 24, 99):
        names = ("user_ids", "user_id", "transition_id", "protocol_version", "epoch")
        bot.take(op, {})
        bot.take(op, dict.fromkeys(names, value))
    assert bot.said == said
    assert ear.hear(bot.sends()) == PACKET
