"""The ORBIT benchmark: personal object recognition from a user's videos."""
