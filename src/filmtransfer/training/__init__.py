"""Training: configuration and presets, episodic fine-tuning, baselines, assessment and editing."""
