"""Episodes: tasks for fine-tuning, sampled from the downstream data."""

from .sample import Episode, episodes, sample_task
from .split import SPLITS, Split, choose_split, has_query_images, hold_out, no_split, split_halves
from .videos import split_videos, video_episodes

__all__ = [
    "SPLITS",
    "Episode",
    "Split",
    "choose_split",
    "episodes",
    "split_halves",
    "sample_task",
    "split_videos",
    "has_query_images",
    "hold_out",
    "video_episodes",
    "no_split",
]
