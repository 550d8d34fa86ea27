"""The service: an HTTP API and a page over a store, a multi-user engine and training workers."""
