"""yt-dlp's challenges, solved in the resolving process: a provider for YouTube that needs no other program.

A script is prepared by another process, and the node keeps what came of it: see `scripts`. What goes wrong here yt-dlp
turns into a warning, and fails later with other words, so it is kept until then.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from yt_dlp.extractor.youtube.jsc.provider import (
    JsChallengeProvider,
    JsChallengeProviderError,
    JsChallengeProviderResponse,
    JsChallengeResponse,
    JsChallengeType,
    NChallengeOutput,
    SigChallengeOutput,
    register_preference,
    register_provider,
)

from tonearm.sources.resolver.javascript import (
    SOLVER,
    ScriptError,
    ScriptPending,
    installed,
    problem,
    script_key,
    solve,
)
from tonearm.sources.resolver.messages import NodePipe


class Challenges:
    """Solves the challenges of this process's pages. `problem` is why the challenges of the last page were not solved;
    the caller clears it before each page."""

    def __init__(self, pipe: NodePipe) -> None:
        self._pipe = pipe
        self._solver = installed(SOLVER)
        self.lack = problem()  # why none can be solved here
        self.problem = ""

    def solved(self, script: str, challenges: list[dict[str, Any]]) -> list[dict[str, str]]:
        """Raises `ScriptError` and `ScriptPending`."""
        code = script.encode()
        try:
            reply, prepared = self._pipe.ask("script", {"key": script_key(self._solver, code)})
            if reply.get("unknown"):
                reply, _ = self._pipe.ask("prepare", {}, code)
            if reply.get("pending"):
                raise ScriptPending
            if "error" in reply:
                raise ScriptError(reply["error"])
            return solve(prepared, challenges)
        except ScriptError as error:
            self.problem = f"a script of the site was not solved by {SOLVER} {self._solver}: {error}"
            raise


def solve_challenges(challenges: Challenges) -> None:
    """Makes yt-dlp ask `challenges` from now on, before all other providers."""

    @register_provider
    class TonearmJCP(JsChallengeProvider):  # type: ignore[misc]
        BUG_REPORT_LOCATION = "the maintainers of tonearm"
        _SUPPORTED_TYPES = (JsChallengeType.N, JsChallengeType.SIG)

        def is_available(self) -> bool:
            return not challenges.lack

        def _real_bulk_solve(self, requests: list[Any]) -> Iterator[Any]:
            of_players: defaultdict[str, list[Any]] = defaultdict(list)
            for request in requests:
                of_players[request.input.player_url].append(request)
            for player_url, asked in of_players.items():
                script = self._get_player(asked[0].video_id, player_url)
                given = [{"type": one.type.value, "challenges": list(one.input.challenges)} for one in asked]
                try:
                    found = challenges.solved(script, given)
                except ScriptError as error:
                    raise JsChallengeProviderError(str(error), expected=True) from error
                for request, answers in zip(asked, found, strict=True):
                    output = NChallengeOutput if request.type is JsChallengeType.N else SigChallengeOutput
                    yield JsChallengeProviderResponse(request, JsChallengeResponse(request.type, output(answers)))

    @register_preference(TonearmJCP)  # type: ignore[untyped-decorator]
    def _before_all_others(provider: Any, requests: Any) -> int:
        return 10_000
