"""Asks for a node's address and its password."""

from collections.abc import Mapping
from typing import Any

import voluptuous as vol
from homeassistant.config_entries import ConfigFlow, ConfigFlowResult
from homeassistant.const import CONF_PASSWORD, CONF_URL
from homeassistant.helpers.selector import TextSelector, TextSelectorConfig, TextSelectorType
from yarl import URL

from tonearm.client import Node, TonearmError, Unauthorized

PASSWORD = TextSelector(TextSelectorConfig(type=TextSelectorType.PASSWORD))


class TonearmConfigFlow(ConfigFlow, domain="tonearm"):
    """One entry a node."""

    async def async_step_user(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """A node is reached before there is an entry for it."""
        given = user_input or {CONF_URL: "http://127.0.0.1:2333"}
        error: TonearmError | None = None
        if user_input is not None:
            user_input[CONF_URL] = user_input[CONF_URL].strip().rstrip("/")
            self._async_abort_entries_match({CONF_URL: user_input[CONF_URL]})
            error = await _tried(user_input)
            if error is None:
                return self.async_create_entry(title=URL(user_input[CONF_URL]).authority, data=user_input)
        schema = vol.Schema({vol.Required(CONF_URL): str, vol.Optional(CONF_PASSWORD): PASSWORD})
        return self._form("user", self.add_suggested_values_to_schema(schema, given), error)

    async def async_step_reauth(self, entry_data: Mapping[str, Any]) -> ConfigFlowResult:
        """The node came back with another password."""
        return await self.async_step_reauth_confirm()

    async def async_step_reauth_confirm(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Asks for the new one."""
        entry = self._get_reauth_entry()
        error: TonearmError | None = None
        if user_input is not None:
            error = await _tried({**entry.data, **user_input})
            if error is None:
                return self.async_update_reload_and_abort(entry, data_updates=user_input)
        return self._form(
            "reauth_confirm", vol.Schema({vol.Required(CONF_PASSWORD): PASSWORD}), error, url=entry.data[CONF_URL]
        )

    def _form(self, step: str, schema: vol.Schema, error: TonearmError | None, **said: str) -> ConfigFlowResult:
        errors = {"base": "invalid_auth" if isinstance(error, Unauthorized) else "cannot_connect"} if error else {}
        placeholders = {**said, "reason": error.message if error else ""}
        return self.async_show_form(
            step_id=step, data_schema=schema, errors=errors, description_placeholders=placeholders
        )


async def _tried(data: Mapping[str, Any]) -> TonearmError | None:
    """Why the node cannot be reached with these, if so."""
    try:
        async with Node(data[CONF_URL], password=data.get(CONF_PASSWORD)):
            return None
    except TonearmError as error:
        return error
