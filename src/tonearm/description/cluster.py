"""The operations of a node in a cluster. A node without a cluster has none of them."""

from typing import Final

from tonearm.description.operation import DONE, Operation, RequestBody, Subject, json_of
from tonearm.protocol import replies, requests

_NODE: Final = "/v0/nodes/{node}"

LIST_NODES: Final = Operation(
    "GET",
    "/v0/nodes",
    "List the nodes of the cluster",
    json_of(replies.ClusterNodes, "The nodes as the node that gets the request sees them, that node first."),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_NODE: Final = Operation(
    "GET",
    _NODE,
    "Show a node of the cluster",
    json_of(replies.ClusterNode, "The node, as the node that gets the request sees it."),
    codes=("node_not_found",),
    tag="Node",
    subject=Subject.NODE,
)
DRAIN_NODE: Final = Operation(
    "POST",
    f"{_NODE}/drain",
    "Move a node's players to others",
    DONE,
    "The node gets no new players from now on. The response comes at once. The node's `players` shows how many it "
    "still has.",
    codes=("node_not_found", "node_unreachable", "bad_request"),
    tag="Node",
    subject=Subject.NODE,
)
STOP_DRAINING: Final = Operation(
    "DELETE",
    f"{_NODE}/drain",
    "End the draining of a node",
    DONE,
    codes=("node_not_found", "node_unreachable"),
    tag="Node",
    subject=Subject.NODE,
)
MOVE_PLAYER: Final = Operation(
    "POST",
    "/v0/players/{player_id}/move",
    "Move a player to another node",
    DONE,
    "The player continues there with its next frame, in a new life that begins with `PlayerMoved`.",
    body=RequestBody(requests.MoveTo, {"to another node": {"node": "node-2"}}),
    tag="Control",
)
TAKE_PLAYER: Final = Operation(
    "PUT",
    "/v0/players/{player_id}/move",
    "Take a player from another node",
    DONE,
    subject=Subject.NEW_PLAYER,
)
