"""The status page: for browsers, Prometheus and health checks.

    runtime.http ──► request ──► access ──► page ──► response ──► runtime.http
                                 may they   one of   with a strict
                                 see it?    a few    content policy

| path | what |
|---|---|
| `/` | the page; its style, script and icon are files in `assets/` |
| `/updates` | the status again and again, as server-sent events |
| `/status.json`, `/history.json` | the status once; what the sensors said in the last minutes |
| `/metrics` | for Prometheus |
| `/healthz`, `/readyz` | whether the process is alive; whether readings get to the disk |
| `/login` | takes the token, gives a cookie |

It is a guest in the agent's process: it is imported after the pipeline has started, every buffer, wait and number of
connections is bounded, and no fault of its own, nor a port that is taken, stops the agent.
"""

from agent.service.page.service import serve_page

__all__ = ["serve_page"]
