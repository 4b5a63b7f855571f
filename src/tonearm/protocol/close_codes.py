"""The codes with which the node closes a WebSocket (RFC 6455, 7.4.1, and IANA's registry)."""

from typing import Final

DELETED: Final = 1000  # normal closure: the player is gone
GOING_AWAY: Final = 1001  # the node is shutting down
TOO_SLOW: Final = 1013  # try again later: the client did not read fast enough
