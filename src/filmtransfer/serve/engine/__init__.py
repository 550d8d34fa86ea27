"""Predictions for many users with one backbone: multi-user batches, a cache of classifiers, and a request batcher."""
