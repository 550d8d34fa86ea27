"""The paper's experiments as recipes: runs, tables beside the published numbers, figures."""
