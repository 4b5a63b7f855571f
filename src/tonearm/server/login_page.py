"""The page that a browser gets at the dashboard's address before it has logged in."""

import hashlib
from base64 import b64encode
from typing import Final

from aiohttp import web

# A browser that is not logged in is redirected here.
PAGE_PATHS: Final = ("/dashboard", "/dashboard/")

_STYLE: Final = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 22rem; margin: 15vh auto 0; padding: 0 1rem; }
form { display: grid; gap: .75rem; }
input[type=password], button { font: inherit; padding: .5rem .75rem; }
"""
_SCRIPT: Final = """
const form = document.querySelector("form"), told = document.querySelector("[role=alert]");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  told.textContent = "";
  const body = JSON.stringify({ password: form.password.value, stay: form.stay.checked });
  try {
    const answer = await fetch(location.pathname.replace(/[/]$/, "") + "/login", { method: "POST", body });
    if (answer.ok) {
      location.reload();
      return;
    }
    told.textContent = (await answer.json()).message;
  } catch {
    told.textContent = "The node does not answer. Is it running?";
  }
  form.password.select();
});
"""
_FORM: Final = """<form>
<label for="password">Password of the node</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<label><input name="stay" type="checkbox"> Stay logged in for 30 days</label>
<button>Log in</button>
</form>
<p role="alert"></p>"""
_NO_PAGE: Final = """<p>This node shows no dashboard here: set <code>dashboard.login = true</code> and
<code>server.password</code> in its configuration, or run <code>tonearm dashboard</code> on your machine."""


def login_page(status: int, *, can_log_in: bool) -> web.Response:
    """The page that asks for the password, or says how to log in."""
    script = f"<script>{_SCRIPT}</script>" if can_log_in else ""
    text = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>tonearm</title>
<style>{_STYLE}</style>
<main><h1>tonearm</h1>
{_FORM if can_log_in else _NO_PAGE}
</main>
{script}
"""
    policy = (
        f"default-src 'none'; style-src '{_hash(_STYLE)}'; script-src '{_hash(_SCRIPT)}'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    return web.Response(status=status, text=text, content_type="text/html", headers=headers)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
