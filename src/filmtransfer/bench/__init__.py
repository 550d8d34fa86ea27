"""The paper's experiments as recipes: runs, tables with the published numbers, and figures."""
