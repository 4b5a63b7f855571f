"""How CPU for each frame and memory grow with the number of players of one node."""

from typing import Final

from bench.parts.window import add_window
from bench.plan import MAIN_FORMAT, Run
from bench.streaming import streaming
from bench.subjects import tonearm_node

FEW: Final = 20
MANY: Final = 200
FLAT_PLAYERS: Final = (1, FEW, 50, 100, MANY, 300)
BANDS_PLAYERS: Final = (FEW, MANY)


async def growth(run: Run) -> None:
    figures = run.figures
    async with tonearm_node(run.folder, decoder_processes=1) as node:
        figures.add("growth/empty_one_decoder/pss_mb", node.pss_mb())
    for kind, counts in (("flat", FLAT_PLAYERS), ("bands", BANDS_PLAYERS)):
        uri = run.uri(MAIN_FORMAT)
        async with streaming(tonearm_node(run.folder), uri, bands=kind == "bands") as node_streaming:
            pss_mb = {}
            for players in counts:
                await node_streaming.grow_to(players)
                await add_window(run, node_streaming, f"growth/{kind}/{players}")
                pss_mb[players] = node_streaming.subject.pss_mb()
                figures.add(f"growth/{kind}/{players}/pss_mb", pss_mb[players])
            figures.add(f"growth/{kind}/mb_a_player", (pss_mb[MANY] - pss_mb[FEW]) / (MANY - FEW))
