"""Personalization on ORBIT: its videos, the tasks of its users, and the paper's table."""
