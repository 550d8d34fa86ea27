"""Budgets: what one input from outside may cost at most. No other module sets a limit of this kind.

An input is an image, an update file, an archive, a request or a message of a federation. Each is charged against its
budget from its header, before anything in it is expanded. docs/security.md states what an attacker can cost within
these limits. Limits that an operator may change are settings of the service (``serve/settings.py``), whose defaults
stand here.
"""

from __future__ import annotations

# Images

MAX_PIXELS = 100_000_000  # a small file can declare an image that does not fit into memory
# Bytes that decoding an image, or scaling the decoded image, may take beside its file: in Pillow's memory, in that of the
# decoder and for the RGB result. It is enough for 100 megapixels of JPEG, RGB or 16-bit grey, 87 of RGBA, and for HEIC of
# 60. benchmarks/results/decoding.md compares it with the memory that a process really takes.
MAX_IMAGE_MEMORY = 700_000_000
MAX_IMAGE_FILE = 800_000_000  # bytes; some decoders read the complete file

# Update files

MAX_UPDATE_BYTES = 1_000_000_000  # of a file; the largest hold all weights of a backbone
MAX_UPDATE_HEADER = 20_000_000  # bytes of its JSON: about 100,000 names and digests of photos
MAX_UPDATE_VALUES = 1_000_000  # of its JSON
MAX_UPDATE_DEPTH = 20  # of nested tables and lists
MAX_UPDATE_DIGITS = 40  # of an integer
MAX_UPDATE_TENSORS = 10_000
MAX_UPDATE_CLASSES = 50_000
MAX_UPDATE_LABEL = 500  # characters of a class name: longer than any file name
MAX_UPDATE_EDITS = 10_000
MAX_HEAD_BYTES = 4_000_000_000  # of memory to restore a head
MAX_HEAD_OPERATIONS = 1_000_000_000_000  # of arithmetic to restore a head: about 20 s
MAX_SERVED_HEAD_BYTES = 256_000_000  # the same for a file that is uploaded to the service
MAX_SERVED_HEAD_OPERATIONS = 100_000_000_000
MAX_UPLOADED_SUMMARY = 1_000_000  # characters that the service keeps of an uploaded file for its lists

# Requests

# Federations

MAX_NAME_LENGTH = 255  # characters of the name of a client or a class: what a file system allows
MAX_NAMES = 100_000  # classes of a client or of a federation
MAX_REASON = 500  # characters of a client's reason for a refusal
