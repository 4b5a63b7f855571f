"""The players of a tonearm node in Home Assistant."""

import sys
from importlib.util import find_spec

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import CONF_PASSWORD, CONF_URL, Platform
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import ConfigEntryAuthFailed, ConfigEntryNotReady

if not find_spec("tonearm") and (client := find_spec("tonearm_client")):
    # Home Assistant has just installed it, and Python reads the file that names its folder at the next start only.
    sys.path += client.submodule_search_locations or ()

from tonearm.client import Node, TonearmError, Unauthorized

PLATFORMS = [Platform.MEDIA_PLAYER]


async def async_setup_entry(hass: HomeAssistant, entry: ConfigEntry[Node]) -> bool:
    """Reaches the node; Home Assistant tries again later, or asks for the password, where that fails."""
    node = Node(entry.data[CONF_URL], password=entry.data.get(CONF_PASSWORD))
    try:
        await node.info()
    except TonearmError as error:
        await node.close()
        refused = ConfigEntryAuthFailed if isinstance(error, Unauthorized) else ConfigEntryNotReady
        raise refused(error.message) from error
    entry.runtime_data = node
    entry.async_on_unload(node.close)
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    return True


async def async_unload_entry(hass: HomeAssistant, entry: ConfigEntry[Node]) -> bool:
    """The players play on."""
    return await hass.config_entries.async_unload_platforms(entry, PLATFORMS)
