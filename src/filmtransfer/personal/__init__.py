"""Personalization: many users, one backbone, one small update each."""
