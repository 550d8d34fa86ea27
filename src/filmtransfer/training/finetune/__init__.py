"""Episodic fine-tuning (FiT): the loop, the exact gradient, and the interpolation that follows."""
