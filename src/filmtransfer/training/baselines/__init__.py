"""The baselines of the paper: batch training of a linear head, the BiT-HyperRule, the search of NOAH."""
