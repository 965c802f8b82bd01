"""The sample site as a WSGI application, for gunicorn: ``gunicorn --config sample_app/gunicorn_conf.py wsgi:app``."""

from __future__ import annotations

import os

from werkzeug.middleware.proxy_fix import ProxyFix

from sample_app import create_app

app = create_app()

# The number of reverse proxies in front. Without any, their headers must not be trusted: anyone could send them.
trusted_proxies = int(os.environ.get("TRUSTED_PROXIES") or 0)
if trusted_proxies:
    app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
        app.wsgi_app, x_for=trusted_proxies, x_proto=trusted_proxies, x_host=trusted_proxies
    )
