"""Assessment without a test set: leave-one-out estimates, calibration, evaluation."""
