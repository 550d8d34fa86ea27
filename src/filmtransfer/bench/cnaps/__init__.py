"""Simple CNAPs: a network that generates FiLM parameters from a set of images, and its meta-training."""
