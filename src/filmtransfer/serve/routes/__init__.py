"""The routes of the API, one file for each noun."""
