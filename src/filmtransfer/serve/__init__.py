"""The service and the page: HTTP over what personal/ does."""
