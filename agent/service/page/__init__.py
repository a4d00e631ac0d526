"""The status page: for browsers, Prometheus and health checks.

    runtime.http ──► request ──► access ──► page ──► response ──► runtime.http
                                 token,     one of   with a strict
                                 host name  a few    content policy

| path | what |
|---|---|
| `/` | the page; its style, script and icon are files in `assets/` |
| `/updates` | the status again and again, as server-sent events |
| `/status.json`, `/history.json` | the status once; the sensors' values of the last minutes |
| `/metrics` | for Prometheus |
| `/healthz`, `/readyz` | whether the process is alive; whether readings get to the disk |
| `/login` | accepts the token, sets a cookie |

The page must not disturb the agent: it is imported after the pipeline has started, every buffer, wait and number of
connections is bounded, and no fault of its own, nor a port that is in use, stops the agent.
"""

from agent.service.page.page import serve_page

__all__ = ["serve_page"]
