"""`python -m bench.voice_calls`: the cost of end-to-end encryption when a member joins a call, by number of members.

Milliseconds of processor time of one member: to make a commit for a newcomer, to work a commit up, and to work up the
welcome by which a newcomer comes in. While one lasts, no packet of the same process leaves.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, Final

import dave
from tests.support.dave_group import ExternalSender, split_commit_and_welcome

from bench.text_table import text_table

_CHANNEL_ID: Final = 7


class _Member:
    def __init__(self, user_id: int, sender: ExternalSender) -> None:
        self.session = dave.Session(None)
        self.session.init(1, _CHANNEL_ID, str(user_id), None)
        self.session.set_external_sender(sender.package)


def costs_ms(members: int) -> list[tuple[float, float, float]]:
    """The three costs, for calls of two members on."""
    sender = ExternalSender(_CHANNEL_ID)
    first, users, found = _Member(0, sender), {"0"}, []
    for user in range(1, members):
        newcomer = _Member(user, sender)
        users.add(str(user))
        package = newcomer.session.get_marshalled_key_package()
        assert package is not None
        proposals = sender.proposals(user - 1, add=(package,))
        own_ms, answer = _timed(first.session.process_proposals, proposals, users)
        commit, welcome = split_commit_and_welcome(answer)
        commit_ms, roster = _timed(first.session.process_commit, commit)
        assert isinstance(roster, dict)
        welcome_ms, _ = _timed(newcomer.session.process_welcome, welcome, users)
        found.append((own_ms, commit_ms, welcome_ms))
    return found


def _timed(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    begun_s = time.process_time()
    result = work(*given)
    return (time.process_time() - begun_s) * 1000, result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.voice_calls", description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[2, 10, 25, 50, 99])
    options = parser.parse_args()
    found = costs_ms(max(options.members))
    rows = [[str(members), *(f"{ms:.1f}" for ms in found[members - 2])] for members in options.members]
    print(text_table("Joining an encrypted call, ms", ["members then", "own commit", "commit", "welcome"], rows))


if __name__ == "__main__":
    main()
