"""Multi-user inference: images of different users in one pass through one backbone."""
