"""The faces of one call. Each spells one vocabulary, and only they read the request."""
