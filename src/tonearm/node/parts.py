"""The parts of a node, and how the usual parts are built. Tests give a node other parts."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tonearm.core.call_later import CallLater
from tonearm.core.library import LibrarySettings
from tonearm.core.snapshot import Resume
from tonearm.core.voice import VoiceCredentials, VoiceFigures, VoiceStatus, VoiceTarget
from tonearm.decoder.opening.track_loader import TrackLoader, Trials
from tonearm.decoder.pool.on_demand import OnDemandPool
from tonearm.decoder.pool.pool import DecoderPool
from tonearm.decoder.pool.starting import DecoderTemplate, StartInterpreter
from tonearm.node.file_saving import FileSaving
from tonearm.node.load import LoadWatch, usable_cores
from tonearm.node.quarantine import QuarantinedOpener
from tonearm.node.saving import Saving
from tonearm.node.state_file import StateFile
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clock import Clock
from tonearm.player.player import Player
from tonearm.player.player_services import PlayerSettings
from tonearm.sandbox.report import SandboxMode, SandboxSupervision, decoder_supervision
from tonearm.sources.opener import SourceOpener


@dataclass(frozen=True, slots=True)
class NodeSettings(PlayerSettings):
    """The part of the configuration that the node and its players need. `decoder_processes` 0 means one for each core
    that it may use.

    `expire_s`: after how long without listener, event client or request a player is deleted; 0: never. `max_load`: the
    share of time that the node may be late and still create players; 0: it always creates them. `tags_ahead`: of how
    many waiting tracks of a player the tags are read ahead. `state_path`: the file in which players survive a restart;
    None: they do not survive it.
    """

    decoder_processes: int = 0
    decoder_memory_limit_mb: int = 1280
    decoder_sandbox: SandboxMode = SandboxMode.AUTO
    expire_s: float = 0.0
    max_players: int = 10_000
    max_load: float = 0.0
    tags_ahead: int = 5
    library: LibrarySettings = field(default_factory=LibrarySettings)
    state_path: Path | None = None
    resume: Resume = Resume.PLAYING


class Claims(Protocol):
    """In a cluster, a player's id belongs to one node. Both methods raise the classes of `core.errors`."""

    async def claim(self, player_id: str) -> bool:
        """Takes the id for a player that is about to be made here. Returns False when this node had it already. Raises
        `PlayerExists` when another node has it."""

    async def unclaim(self, player_id: str) -> None:
        """Gives the id back: the player was not made."""


class Voices(Protocol):
    """The voices of all players, as `voice.voices` documents them. `check` and `put` raise `VoiceTaken`,
    `EndpointBlocked`, `LimitReached` and `BadRequest`."""

    def check(self, player_id: str, target: VoiceTarget) -> None:
        """Raises what `put` would, and changes nothing. The player need not be there."""

    def put(self, player: Player, target: VoiceTarget, credentials: VoiceCredentials) -> None: ...

    def leave(self, player_id: str) -> None:
        """Ends the player's voice, if it has one."""

    async def settled(self, player_id: str, within_s: float) -> VoiceStatus | None:
        """Returns when the voice is not `connecting`, but after this time at the latest."""

    def figures(self) -> VoiceFigures: ...

    async def stop(self) -> None:
        """Leaves all channels in an orderly way."""


class Template(Protocol):
    """The process that the decoder processes are forks of, as `decoder.pool.starting.DecoderTemplate` documents it."""

    def load(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NodeParts:
    """`players` by id, in the order of their creation; `saving` reads them. `loader` loads what no player plays yet,
    `trials` tries suspects. `wall_ms` gives the time of day in ms since 1970, `suspended_s` for how long the machine
    has slept since its boot. `voice` is None on a node that speaks in no channels; `no_voice` says why, and what to do
    about it."""

    opener: SourceOpener
    players: dict[str, Player]
    saving: Saving | None
    claims: Claims | None
    sandbox: SandboxSupervision
    template: Template
    pool: DecoderPool
    has_several_processes: bool
    trials: Trials
    suspects: QuarantinedOpener
    loader: TrackLoader
    clock: Clock
    feed: EventFeed
    load: LoadWatch
    call_later: CallLater
    wall_ms: Callable[[], int]
    suspended_s: Callable[[], float]
    voice: Voices | None = None
    no_voice: str = ""


def usual_parts(
    opener: SourceOpener,
    settings: NodeSettings,
    start: StartInterpreter | None = None,
    *,
    saving: Callable[[dict[str, Player]], Saving] | None = None,
    claims: Claims | None = None,
    voice: Voices | None = None,
    no_voice: str = "",
) -> NodeParts:
    """The parts of a node on the running event loop. Nothing of them is started. `start` starts the interpreters of
    decoder processes; None: as `decoder.pool.starting.start_interpreter`. `saving` keeps the players; None: the state's
    file does, if there is one. Without `voice`, `no_voice` says why."""
    call_later = asyncio.get_running_loop().call_later
    memory_limit_mb, mode = settings.decoder_memory_limit_mb, settings.decoder_sandbox
    sandbox, template = decoder_supervision(mode), DecoderTemplate(memory_limit_mb, mode, start)

    def on_demand_pool() -> OnDemandPool:
        return OnDemandPool(memory_limit_mb, sandbox=sandbox, starter=template)

    processes = settings.decoder_processes or usable_cores()
    trials = Trials(opener.open, on_demand_pool())
    suspects = QuarantinedOpener(opener, trials.ends_its_process)
    players: dict[str, Player] = {}
    path = settings.state_path
    return NodeParts(
        opener=opener,
        players=players,
        saving=saving(players) if saving else None if path is None else FileSaving(StateFile(path), players, wall_ms),
        claims=claims,
        sandbox=sandbox,
        template=template,
        pool=DecoderPool(processes, memory_limit_mb, sandbox=sandbox, starter=template),
        has_several_processes=processes > 1,
        trials=trials,
        suspects=suspects,
        loader=TrackLoader(suspects.open_uncounted, suspects.add, on_demand_pool()),
        clock=Clock(),
        feed=EventFeed(call_later, wall_ms),
        load=LoadWatch(call_later),
        call_later=call_later,
        wall_ms=wall_ms,
        suspended_s=suspended_s,
        voice=voice,
        no_voice=no_voice,
    )


def wall_ms() -> int:
    """The time of day in ms since 1970."""
    return time.time_ns() // 1_000_000


def suspended_s() -> float:
    """For how long the machine has slept since its boot: the monotonic clock stands still then (clock_gettime(2)).
    Less by the time that passes between the two readings."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
