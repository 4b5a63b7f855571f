"""The node: all players by id. The server calls the node through this object only."""

import asyncio
import contextlib
import copy
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tonearm import VERSION
from tonearm.core.errors import LimitReached, PlayerExists, PlayerNotFound, VoiceDisabled
from tonearm.core.events import (
    DeleteReason,
    Event,
    EventMessage,
    PlayerCreate,
    PlayerDelete,
    PlayerMoved,
    PlayerState,
    QueueUpdate,
    TrackEnd,
)
from tonearm.core.figures import NodeFigures, ProcessFigures, Totals, in_slots
from tonearm.core.file_formats import Picture
from tonearm.core.forgotten import ForgottenPlayers
from tonearm.core.frame import ListenerKind
from tonearm.core.metadata import Json, require_player_id
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LeftOut
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import FirstSettings
from tonearm.core.player_status import PlayerQuality
from tonearm.core.printable import text_for_logs
from tonearm.core.queue_edits import QueueLimits, require_index
from tonearm.core.snapshot import PlayerSnapshot, continued
from tonearm.core.source_uri import uri_for_logs
from tonearm.core.track import Track
from tonearm.core.voice import VoiceCredentials, VoiceStatus, VoiceTarget
from tonearm.decoder.opening.live_carriers import LiveCarriers
from tonearm.node.files import Files
from tonearm.node.garbage_collection import GarbageCollection
from tonearm.node.load import process_figures
from tonearm.node.parts import NodeParts, NodeSettings, Voices
from tonearm.node.saving import Saving
from tonearm.node.tags_ahead import TagsAhead
from tonearm.node.tracks import Artworks, Lookup, TrackMaker, WantedTrack
from tonearm.player.clients.sinks import EventSink
from tonearm.player.handle import PlayerHandle
from tonearm.player.player import Player
from tonearm.player.player_services import PlayerServices
from tonearm.protocol.framing import CloseCode
from tonearm.protocol.wire_model import json_bytes

PLAYERS_A_SLICE: Final = 250  # so many players' figures are taken before the event loop goes on
LATE_FOR_S: Final = 10.0  # after frames were left out, the node counts as late for so long
_RESTORED_A_SLICE: Final = 20  # players that are restored before the event loop goes on

_LOGGED_CHARACTERS: Final = 100  # of a client's name for itself

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AddedTracks:
    """The ids of new tracks, what a playlist left out, and sentences about those of them that will not play."""

    ids: tuple[str, ...]
    left_out: LeftOut = field(default_factory=LeftOut)
    warnings: tuple[str, ...] = ()


class Node:
    """Lives on one event loop, from `start` to `stop`. Methods raise the classes of `core.errors`."""

    def __init__(self, parts: NodeParts, settings: NodeSettings) -> None:
        self.settings = settings
        self._parts = parts
        self._opener, self._players, self._saving = parts.opener, parts.players, parts.saving
        self._pool, self._clock, self._feed = parts.pool, parts.clock, parts.feed
        self._reserved_ids: set[str] = set()  # of players that are being created
        self._making = asyncio.Lock()
        self._queue_locks: dict[str, asyncio.Lock] = {}  # of players whose queue is being changed
        self._track_maker = TrackMaker(parts.opener, settings.max_metadata_bytes)
        loader, suspects = parts.loader, parts.suspects
        self.lookup = Lookup(parts.opener, loader)
        self.files = Files(settings.library, parts.opener, loader)
        self._artworks = Artworks(loader)
        self._tags_ahead = TagsAhead(loader, suspects.open_for_tags, parts.opener.page_facts, settings.tags_ahead)
        self._garbage_collection = GarbageCollection(parts.call_later, lambda: parts.clock.is_idle)
        self._services = PlayerServices(
            settings=settings,
            pool=parts.pool,
            opener=suspects,
            suspect=suspects.add,
            carriers=LiveCarriers(suspects.add),
            clock=parts.clock,
            wall_ms=parts.wall_ms,
            call_later=parts.call_later,
            json_bytes=json_bytes,
            event_feed=parts.feed,
            told=self._told,
            changed=self._changed,
        )
        self._is_running = False
        self._started_s = time.monotonic()
        self._suspended_before_s = parts.suspended_s()
        self._suspended_since_s = 0.0
        self._processes: tuple[ProcessFigures, ...] = ()  # as the last figures had them
        self._forgotten = ForgottenPlayers(settings.expire_s)
        self._expiring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the first decoder process. Raises `OSError` or `TimeoutError` when that fails, `ResolverSetupError`
        when the resolver cannot work as it is configured, `SandboxRequiredError`, and `StateFileError`.
        """
        if self._saving is not None:
            await self._saving.open()
        self._parts.template.load()  # beside the resolver's processes
        try:
            await self._opener.start()
        except BaseException:
            await self._parts.template.stop()
            await self._opener.close()
            raise
        self._parts.load.start()
        self._is_running = True
        try:
            await self._pool.start(spare_at_once=self._parts.has_several_processes)
            if self._saving is not None:
                await self._restore(self._saving)
        except BaseException:
            await self.stop()
            raise
        if self.settings.expire_s:
            self._expiring = asyncio.create_task(self._delete_forgotten())

    def announce_processes(self) -> None:
        """Logs which decoder processes are ready, and how these and the resolver processes are confined."""
        self._pool.announce()
        self._parts.sandbox.announce()
        self._opener.announce_sandbox()

    async def stop(self) -> None:
        """Writes the state, stops the clock, closes every socket with 1001 and ends the decoder processes."""
        if not self._is_running:
            return
        if self._saving is not None:
            await _stopped("saving the players", self._saving.stop())
        if self._parts.voice is not None:
            await _stopped("the voices", self._parts.voice.stop())
        self._is_running = False
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.wait([self._expiring])
        self._clock.stop()
        self._parts.load.stop()
        players = list(self._players.values())
        self._players.clear()
        for player in players:
            player.close_connections(CloseCode.GOING_AWAY, "the node is shutting down")
        self._feed.close(CloseCode.GOING_AWAY, "the node is shutting down")
        await asyncio.gather(*(_stopped("a player", player.delete()) for player in players))
        self._garbage_collection.stop()
        await _stopped("reading tags ahead", self._tags_ahead.stop())
        await _stopped("reading pictures", self._artworks.stop())
        await _stopped("loading tracks", self._parts.loader.stop())
        await _stopped("trying suspect sources", self._parts.suspects.stop())
        await _stopped("their process", self._parts.trials.stop())
        await _stopped("the decoder processes", self._pool.stop())
        await _stopped("their template", self._parts.template.stop())
        await _stopped("what opens sources", self._opener.close())

    async def figures(self) -> NodeFigures:
        """The figures of the node and its players, taken in slices, so that thousands of players do not make the clock
        late."""
        services = self._started()
        states: Counter[PlayerState] = Counter(dict.fromkeys(PlayerState, 0))
        listeners: Counter[ListenerKind] = Counter()
        asleep = 0
        qualities: list[tuple[Player, PlayerQuality]] = []
        for number, player in enumerate(self._all_here(), start=1):
            found = player.figures()
            qualities.append((player, found.quality))
            states[found.state] += 1
            listeners.update(found.listeners)
            asleep += found.is_asleep
            if number % PLAYERS_A_SLICE == 0:
                await asyncio.sleep(0)
        processes = await asyncio.to_thread(process_figures, os.getpid(), self._pool.sessions_by_process)
        self._processes = in_slots(processes, self._processes)
        overload_s, players_waiting = self._pool.overload
        # Nothing is awaited from here on: a player that was deleted meanwhile is in the node's totals by now.
        totals = copy.deepcopy(services.totals)
        for player, quality in qualities:
            if not player.is_deleted:
                totals.add(quality)
        # A counter of Prometheus that falls, be it by a microsecond, was set back to 0 and counts anew.
        self._suspended_since_s = max(self._suspended_since_s, self._parts.suspended_s() - self._suspended_before_s)
        return NodeFigures(
            version=VERSION,
            uptime_s=time.monotonic() - self._started_s,
            suspended_s=self._suspended_since_s,
            players=states,
            players_asleep=asleep,
            players_waiting=players_waiting,
            overload_s=overload_s,
            listeners=listeners,
            totals=totals,
            times_left_out=services.clock.times_left_out,
            frames_left_out=services.clock.frames_left_out,
            lateness=services.clock.lateness,
            fetches=dict(self._parts.suspects.fetches),
            decoder_exits=self._pool.exits,
            decoder_work=self._pool.work,
            sandboxes={"decoders": self._parts.sandbox.level, "resolvers": self._opener.resolver_sandbox},
            resolver=self._opener.resolver_figures,
            state=None if self._saving is None else self._saving.figures,
            processes=self._processes,
            voice=None if self._parts.voice is None else self._parts.voice.figures(),
            load=self.load,
        )

    def unreadiness(self) -> str:
        """Why the node should get no more players now; empty when it may get more."""
        if not self._is_running:
            return "The node is not started, or is shutting down."
        if not self._pool.process_ids_in_use and not self._pool.has_spare:
            return "No decoder process is ready; the log says why."
        quiet_s = self._services.clock.quiet_s
        if quiet_s < LATE_FOR_S:
            return f"Frames were dropped {quiet_s:.0f} s ago, because this machine is overloaded."
        overload_s, waiting = self._pool.overload
        if overload_s:
            return f"The node has been overloaded for {overload_s:.0f} s: {waiting} players wait for room."
        return ""

    @property
    def load(self) -> float:
        """The used share of the node's capacity, as far as it can be measured; 1 when there is none left."""
        return 1.0 if self.unreadiness() or self._no_room() else self._parts.load.late_share

    @property
    def degradation(self) -> str:
        """What does not work although the node plays; empty when everything works."""
        return "" if self._saving is None else self._saving.degraded

    async def saved(self, player_id: str) -> bool:
        """Waits for a limited time until all changes of a player are saved. Returns whether they are; True also for a
        node that saves no state."""
        return self._saving is None or await self._saving.saved(player_id)

    async def create_player(
        self,
        player_id: str,
        track: str | WantedTrack | None,
        metadata: Json,
        *,
        settings: FirstSettings | None = None,
        voice: tuple[VoiceTarget, VoiceCredentials] | None = None,
        client: str = "",
    ) -> AddedTracks:
        """Creates a player that begins with `track`, or idle without one; the further tracks of a playlist are queued.

        Entries of a playlist without room in the queue count as left out. With a `voice` the player begins when the
        channel can hear it. `client` names the client in the log.

        Raises `BadRequest`, `InvalidIdentifier`, `PlayerExists`, `LimitReached`, `SourceBlocked` and `SourceRefused`,
        and what `put_voice` raises; then there is no player.
        """
        require_player_id(player_id)
        # A mistake in the request itself is reported before any conflict.
        wanted = WantedTrack(track) if isinstance(track, str) else track
        checked = None if wanted is None else self._track_maker.check(wanted)
        self._track_maker.check_metadata(metadata)
        if player_id in self._players or player_id in self._reserved_ids:
            raise PlayerExists.of(player_id)
        try:
            if voice is not None:
                self._voices().check(player_id, voice[0])
            self._require_room()
        except LimitReached:
            if checked is not None:
                self._track_maker.make(checked)  # a source that the policy refuses is reported before any limit
            raise
        async with self._reserved(player_id):
            tracks, left_out = ((), LeftOut()) if checked is None else await self._track_maker.expand(checked)
            first, others = (tracks[0], tracks[1:]) if tracks else (None, ())
            await self._turn_to_make()
            if voice is not None:
                self._voices().check(player_id, voice[0])  # another player may speak there by now
        player = Player(player_id, first, metadata, self._started(), settings)
        self._add(player)
        if voice is not None:
            player.await_voice()
            self._voices().put(player, *voice)
        room = player.room_for(others)
        if room < len(others):
            log.warning(
                "player %s: its queue has room for only %d of a playlist's %d tracks", player_id, room, len(others)
            )
            reason = f"The player's queue has no room for {len(others) - room} of them."
            left_out = LeftOut.because(left_out.count + len(others) - room, (reason, *left_out.reasons))
        if others:
            player.do(Requests.enqueue, *others[:room])
        given = "idle" if first is None else (wanted and wanted.uri) or first.uri.given
        log.info("player %s created: %s%s", player_id, uri_for_logs(given), _by(client))
        return self._added(tracks[: room + 1], left_out)

    async def take_over(
        self, snapshot: PlayerSnapshot, client: str = "", *, moved: PlayerMoved | None = None, comes_back: bool = False
    ) -> bool:
        """Creates the player of a snapshot, in place of a player with the same id, which stays when the new one cannot
        be made. `moved`: it comes from another node, which its clients are told first. `comes_back`: this node gave it
        up, and needs no room for it. Neither is refused for its queue, which some node of the cluster has allowed.
        Returns whether there was such a player. Raises `BadRequest`, `PlayerExists` (while one is being
        created) and `LimitReached`."""
        player_id = snapshot.player_id
        require_player_id(player_id)
        if player_id in self._reserved_ids:
            raise PlayerExists(f"Player {player_id!r} is being created; try again.")
        self._track_maker.check_metadata(snapshot.metadata)
        self._track_maker.check_metadata(dict(snapshot.companions))
        limits = QueueLimits(self.settings.max_waiting_tracks, self.settings.max_waiting_bytes)
        # Tracks that have sounded were put back by `previous` or a loop, for which a queue needs no room.
        tracks = [waiting.track for waiting in snapshot.queue if not waiting.gave_audio]
        if player_id not in self._players and not comes_back:
            self._require_room()
        async with self._reserved(player_id):
            if moved is None and not comes_back:
                await asyncio.to_thread(limits.require_room, player_id, 0, 0, tracks)  # there may be ten thousand
            await self._turn_to_make()
        replaced, handover = self._players.get(player_id), snapshot.handover
        goes_on = replaced is not None and handover is not None and handover.life == replaced.life
        if replaced is not None and goes_on:
            snapshot = continued(snapshot, replaced.record())
        player = Player(player_id, None, {}, self._started(), snapshot=snapshot, came=moved)
        # There is no await between the end of the old player and the new one, so the state file always has one of them.
        try:
            if replaced is not None and goes_on:
                replaced.give_up("The player goes on from a record of it; come back.")
                self._garbage_collection.player_deleted()
            elif replaced is not None:
                replaced.end()
        finally:
            self._add(player, is_new=moved is None)
            log.info("player %s taken over%s", player_id, _by(client))
            if replaced is not None:
                await self._let_go(player_id, replaced, replaced.close())
        return replaced is not None

    async def give_up(self, player_id: str, reason: str, client: str = "") -> PlayerSnapshot:
        """Stops a player that goes on elsewhere, and returns all that `take_over` needs there. Its clients are told
        `reason`, and that it is not deleted. Raises `PlayerNotFound`."""
        self._here(player_id)
        player = self._players.pop(player_id)
        try:
            return player.give_up(reason)
        finally:
            self._changed(player_id)
            self._garbage_collection.player_deleted()
            log.info("player %s handed over%s: %s", player_id, _by(client), reason)
            await self._let_go(player_id, player, player.close())

    async def delete_player(self, player_id: str, client: str = "") -> None:
        self._here(player_id)
        await self._delete(player_id, None)
        log.info("player %s deleted%s", player_id, _by(client))

    def player(self, player_id: str) -> PlayerHandle:
        """The player with this id. Raises `PlayerNotFound`. A caller that awaits must ask again: the player may be
        deleted meanwhile."""
        return self._here(player_id)

    def find(self, player_id: str) -> PlayerHandle | None:
        """The player with this id, if there is one. Asking this does not count as a request for the player."""
        return self._players.get(player_id)

    def players(self) -> Iterator[PlayerHandle]:
        """All players, in the order of their creation. The caller may await in between: players that are deleted
        meanwhile are left out."""
        return self._all_here()

    @asynccontextmanager
    async def changing_queue(self, player_id: str, patience_s: float | None = None) -> AsyncIterator[None]:
        """A lock for a request that changes a player's queue: such requests are done in the order in which they came,
        however long a request waits for its body or for a playlist. A request waits for earlier requests for at most
        `patience_s` (None: without limit), and then overtakes them.

        Raises `PlayerNotFound`, also when the player was deleted meanwhile.
        """
        player = self._here(player_id)
        lock = self._queue_locks.setdefault(player_id, asyncio.Lock())
        try:
            async with asyncio.timeout(patience_s):
                await lock.acquire()
        except TimeoutError:
            yield
            return
        try:
            self._still(player_id, player)
            yield
        finally:
            lock.release()

    async def enqueue(
        self, player_id: str, track: str | WantedTrack, metadata: Json, *, index: int | None = None
    ) -> AddedTracks:
        """Adds a track to the end of the queue, or before the track at `index`. `track` may be a URI, with `metadata`.
        Where the URI's ending says that it is a playlist, and it can be read at once, its entries are added instead.

        Raises `PlayerNotFound`, also when the player was deleted meanwhile, `BadRequest`, `InvalidIdentifier`,
        `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        player = self._here(player_id)
        require_index(index)
        wanted = track if isinstance(track, WantedTrack) else WantedTrack(track, metadata)
        tracks, left_out = await self._expanded(wanted)
        self._still(player_id, player).do(Requests.enqueue, *tracks, index=index)
        return self._added(tracks, left_out)

    async def enqueue_all(
        self, player_id: str, wanted: Sequence[WantedTrack], *, index: int | None = None
    ) -> AddedTracks:
        """Adds all of these tracks, or none. A playlist among them is expanded when it is to be played.

        Raises what `enqueue` raises; the message names the first track that is wrong.
        """
        player = self._here(player_id)
        require_index(index)
        # In a thread: judging and making hundreds of tracks takes some ms.
        tracks = await asyncio.to_thread(self._track_maker.make_all, wanted)
        self._still(player_id, player).do(Requests.enqueue, *tracks, index=index)
        return self._added(tracks)

    async def replace_track(self, player_id: str, wanted: WantedTrack) -> AddedTracks:
        """Plays a track instead of the current track; of a playlist the first track, and its others come next.

        Raises what `enqueue` raises.
        """
        player = self._here(player_id)
        tracks, left_out = await self._expanded(wanted)
        self._still(player_id, player).do(Requests.replace, *tracks)
        return self._added(tracks, left_out)

    def add_overlay(self, player_id: str, wanted: WantedTrack, settings: OverlaySettings) -> str:
        """Adds an overlay to a player. Returns its id.

        Raises `PlayerNotFound`, `BadRequest`, `InvalidIdentifier`, `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        track = self._track_maker.make(self._track_maker.check(wanted))
        return self._add_overlays(player_id, [(track, settings)])[0]

    async def add_overlays(self, player_id: str, wanted: Sequence[tuple[WantedTrack, OverlaySettings]]) -> list[str]:
        """Adds all of these overlays, which begin with the same frame, or none. Returns their ids.

        Raises what `add_overlay` raises; the message names the first overlay that is wrong.
        """
        player = self._here(player_id)
        # In a thread, as in `enqueue_all`.
        tracks = await asyncio.to_thread(self._track_maker.make_all, [track for track, _ in wanted])
        self._still(player_id, player)
        return self._add_overlays(player_id, [(track, one[1]) for track, one in zip(tracks, wanted, strict=True)])

    def _add_overlays(self, player_id: str, new: list[tuple[Track, OverlaySettings]]) -> list[str]:
        self._here(player_id).add_overlays(*new)
        for track, _ in new:
            log.info("player %s: overlay: %s", player_id, uri_for_logs(track.info.identifier))
        return [track.id for track, _ in new]

    def put_voice(self, player_id: str, target: VoiceTarget, credentials: VoiceCredentials) -> None:
        """Has a player speak in a channel, which is being done when this returns; the same values again change nothing.

        Raises `PlayerNotFound`, `VoiceDisabled`, `VoiceTaken`, `EndpointBlocked`, `LimitReached` and `BadRequest`.
        """
        self._voices().put(self._here(player_id), target, credentials)

    def leave_voice(self, player_id: str) -> None:
        """Has a player leave its channel, if it speaks in one. Raises `PlayerNotFound`."""
        player = self._here(player_id)
        if self._parts.voice is not None:
            self._parts.voice.leave(player_id)
        player.forget_voice()

    async def voice_settled(self, player_id: str, within_s: float) -> VoiceStatus | None:
        """How a player's voice is doing when it is not `connecting`, or after `within_s`; None without one. Raises
        `PlayerNotFound`."""
        status = self._here(player_id).status().voice
        if self._parts.voice is None or not within_s or status is None:
            return status
        await self._parts.voice.settled(player_id, within_s)
        return self._here(player_id).status().voice

    def _voices(self) -> Voices:
        if self._parts.voice is None:
            raise VoiceDisabled(self._parts.no_voice or "This node has no voice channels; set voice.enabled.")
        return self._parts.voice

    def follow_all(self, sink: EventSink) -> Callable[[], None]:
        """Sends the events of all players to `sink` from now on. Returns a call that stops it."""
        return self._feed.subscribe(sink)

    def _here(self, player_id: str) -> Player:
        player = self._players.get(player_id)
        self._forgotten.spoken_to(player_id)
        if player is None:
            raise PlayerNotFound.of(player_id)
        return player

    def _all_here(self) -> Iterator[Player]:
        for player_id in tuple(self._players):
            player = self._players.get(player_id)
            if player is not None:
                yield player

    def _still(self, player_id: str, player: Player) -> Player:
        """Returns `player` if it still has this id. Raises `PlayerNotFound`."""
        if self._here(player_id) is not player:
            raise PlayerNotFound(f"Player {player_id!r} was deleted meanwhile, and created anew.")
        return player

    async def queue_details_known(self, player_id: str, first: int, count: int, wait_s: float) -> None:
        """Returns when the titles and lengths of these waiting tracks are read, where they can be, but after `wait_s`
        at the latest. Raises `PlayerNotFound`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._tags_ahead.known(self._here(player_id), first, count)

    async def artwork(self, player_id: str) -> Picture:
        """The picture inside the current track's file.

        Raises `PlayerNotFound`, `NoArtwork`, `SourceBlocked` and `SourceRefused`.
        """
        return await self._artworks.of(self._here(player_id).status().track)

    def _require_room(self) -> None:
        """Raises `LimitReached` when no further player may be created."""
        if why := self._no_room():
            raise LimitReached(why)

    def _no_room(self) -> str:
        """Why no further player may be created; empty when one may."""
        if len(self._players) + len(self._reserved_ids) >= self.settings.max_players:
            return f"The node has reached player.max_players: {self.settings.max_players} players."
        late_share, max_load = self._parts.load.late_share, self.settings.max_load
        if max_load and late_share >= max_load:
            return (
                f"The node was late in {late_share:.0%} of the last 10 s (server.max_load is {max_load:.0%}); one more "
                "player would make all of them stutter. Try again later, or another node."
            )
        return ""

    @asynccontextmanager
    async def _reserved(self, player_id: str) -> AsyncIterator[None]:
        """Meanwhile no other player with this id can be made, not even at another node of the cluster."""
        claims = self._parts.claims
        self._reserved_ids.add(player_id)
        try:
            is_new = claims is not None and await claims.claim(player_id)
            try:
                yield
            except BaseException:
                if claims is not None and is_new:
                    await claims.unclaim(player_id)
                raise
        finally:
            self._reserved_ids.discard(player_id)

    async def _turn_to_make(self) -> None:
        """Returns in an iteration of the loop in which no other player is made, because hundreds in one iteration would
        delay all answers."""
        async with self._making:
            await asyncio.sleep(0)

    def _add(self, player: Player, *, is_new: bool = True) -> None:
        self._players[player.player_id] = player
        self._started().totals.players_created += 1
        self._changed(player.player_id)
        if is_new and self._feed.has_followers:
            self._feed.send(
                EventMessage(player.player_id, player.status().life, 0, self._parts.wall_ms(), PlayerCreate())
            )

    def _changed(self, player_id: str) -> None:
        """The saved data of a player changed, or the player was created, replaced or deleted."""
        if self._saving is not None:
            self._saving.changed(player_id)

    def _told(self, player_id: str, events: Sequence[Event]) -> None:
        """Takes the events of a player before its clients get them."""
        if self._saving is not None:
            self._saving.told(player_id, events)
        for event in events:
            if isinstance(event, TrackEnd):
                self._garbage_collection.track_ended()
            elif isinstance(event, PlayerDelete):
                self._garbage_collection.player_deleted()
        player = self._players.get(player_id)
        if player is not None and any(isinstance(event, QueueUpdate) for event in events):
            self._tags_ahead.queue_changed(player)

    async def _restore(self, saving: Saving) -> None:
        """Creates the players of the state file."""
        for number, snapshot in enumerate(await saving.read(self.settings.resume), start=1):
            try:
                self._add(Player(snapshot.player_id, None, {}, self._started(), snapshot=snapshot))
            except Exception:
                log.exception("player %s could not be restored, and stays in the state's file", snapshot.player_id)
            if number % _RESTORED_A_SLICE == 0:
                await asyncio.sleep(0)
        if self._players:
            log.info("%d players restored", len(self._players))
        await saving.keep()

    def _added(self, tracks: Sequence[Track], left_out: LeftOut | None = None) -> AddedTracks:
        ids = tuple(track.id for track in tracks)
        return AddedTracks(ids, left_out or LeftOut(), self._track_maker.warnings_of(tracks))

    async def _expanded(self, wanted: WantedTrack) -> tuple[Sequence[Track], LeftOut]:
        return await self._track_maker.expand(self._track_maker.check(wanted))

    async def _delete(self, player_id: str, reason: DeleteReason | None) -> None:
        player = self._players.pop(player_id)
        await self._let_go(player_id, player, player.delete(reason))

    async def _let_go(self, player_id: str, player: Player, closing: Awaitable[None]) -> None:
        """Forgets a player that the node does not have any more, and closes it by `closing`."""
        self._queue_locks.pop(player_id, None)
        try:
            await closing
        finally:
            self._tags_ahead.player_deleted(player)

    async def _delete_forgotten(self) -> None:
        forgotten = self._forgotten
        while True:
            await asyncio.sleep(forgotten.interval_s)
            now_s = time.monotonic()
            forgotten.note_unattended(now_s, (id for id, player in self._players.items() if not player.is_attended))
            for player_id in forgotten.forgotten(now_s):
                if player_id in self._players and forgotten.is_forgotten(player_id, now_s):
                    try:
                        await self._delete(player_id, DeleteReason.EXPIRED)
                    except Exception:
                        log.exception("player %s, which is not used any more, could not be deleted properly", player_id)
                    else:
                        log.info(
                            "player %s deleted: it was not used for %g s",
                            player_id,
                            self.settings.expire_s,
                        )

    @property
    def totals(self) -> Totals:
        """The counts besides those of the present players."""
        return self._services.totals

    def _started(self) -> PlayerServices:
        assert self._is_running, "the node was not started, or is stopped"
        return self._services


async def _stopped(what: str, stopping: Awaitable[None]) -> None:
    """Stops a part of the node. An error is logged, and the other parts are stopped all the same."""
    try:
        await stopping
    except Exception:
        log.exception("%s could not be stopped properly", what)


def _by(client: str) -> str:
    return f" (asked for by {text_for_logs(client)[:_LOGGED_CHARACTERS]})" if client else ""
