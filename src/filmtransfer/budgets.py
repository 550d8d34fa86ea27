"""Budgets: what one input from outside may cost at most. No other module sets a limit of this kind.

An input is an image, an update file, an archive, a request or a message of a federation. Each is charged against its
budget from its header, before anything in it is expanded. docs/security.md states what an attacker can cost within
these limits. Limits that an operator may change are settings of the service (``serve/settings.py``). The comments of both
are the tables of that page (scripts/make_budgets.py).
"""

from __future__ import annotations

# Images

MAX_PIXELS = 100_000_000  # of an image, by its header
MAX_IMAGE_MEMORY = 700_000_000  # bytes to decode and scale it: 100 megapixels of JPEG, 87 of RGBA, 60 of HEIC
LARGE_IMAGE_MEMORY = 100_000_000  # bytes above which images are decoded one after the other, not by threads
MAX_IMAGE_METADATA = 64_000_000  # bytes of tags, profiles, comments, as often as a file refers to them
MAX_IMAGE_PARTS = 200_000  # tags, numbers in tags, segments, chunks and blocks of a file
MAX_IMAGE_SCANS = 50  # of a JPEG; encoders write about 10, and each takes up to 50 ms
MAX_IMAGE_FILE = 800_000_000  # bytes; some decoders read the complete file

# Lists of images

MAX_LIST_BYTES = 50_000_000  # bytes of a CSV file
MAX_LIST_ROWS = 1_000_000  # images of a CSV file

# Videos

MAX_VIDEO_PIXELS = 9_000_000  # of a frame: 4K; a decoder keeps up to 16 of them

# Archives

MAX_UNPACKED_RATIO = 100  # bytes in archives, and in those inside, for each byte of the files …
MAX_UNPACKED_SMALL = 1_000_000_000  # … or as many bytes, if the files are small
MAX_UNPACKED_BYTES = 200_000_000_000  # bytes in the archives of a data set in any case
MAX_ARCHIVE_MEMBERS = 1_000_000  # files and folders in the archives of a data set
MAX_MEMBER_HEADER = 1 << 20  # bytes that a tar may contain about a member

# Update files

MAX_UPDATE_BYTES = 1_000_000_000  # bytes of a file; the largest hold all weights of a backbone
MAX_UPDATE_HEADER = 20_000_000  # bytes of its JSON: about 100,000 names and digests of photos
MAX_UPDATE_VALUES = 1_000_000  # values in its JSON
MAX_UPDATE_DEPTH = 20  # levels of nested tables and lists
MAX_UPDATE_DIGITS = 40  # digits of an integer
MAX_UPDATE_TENSORS = 10_000  # arrays in a file
MAX_UPDATE_DIMENSIONS = 8  # of an array
MAX_UPDATE_CLASSES = 50_000  # classes of a classifier
MAX_UPDATE_LABEL = 500  # characters of a class name: longer than any file name
MAX_UPDATE_TEXT = 2_000  # characters of any other text in its JSON
MAX_UPDATE_EDITS = 10_000  # changes after training
MAX_HEAD_BYTES = 4_000_000_000  # bytes of memory to restore a head
MAX_HEAD_OPERATIONS = 1_000_000_000_000  # operations of arithmetic to restore a head: about 20 s
MAX_SERVED_HEAD_BYTES = 256_000_000  # bytes of memory for a head that is uploaded to the service
MAX_SERVED_HEAD_OPERATIONS = 100_000_000_000  # operations for such a head
MAX_UPLOADED_SUMMARY = 1_000_000  # characters that the service keeps of an uploaded file for its lists

# Requests

MAX_URL_BYTES = 8_000  # bytes of path and query string; the service itself makes no longer ones than 200
MAX_HEADER_BYTES = 16_384  # bytes of request line and headers
MAX_HEADERS = 100  # headers of a request
MAX_TOKEN = 200  # characters of a token; those of the service have 43
READ_BYTES = 64_000  # bytes taken from a connection at a time, and kept of a request that waits
MAX_CONNECTIONS_OF_ADDRESS = 200  # connections of one address, where no proxy is in between
SPARE_CONNECTIONS = 200  # connections above the limit that still get a response; others are cut off
RESERVED_FILES = 256  # file descriptors that connections never take: for the database, files and pipes
LINGER_BYTES = 1_000_000  # bytes read and discarded of a refused body, so that the client gets the response
LINGER_SECONDS = 2.0  # for that

# Federations

MAX_NAME_LENGTH = 255  # characters of the name of a client or a class: what a file system allows
MAX_NAMES = 100_000  # classes of a client or of a federation
MAX_REASON = 500  # characters of a client's reason for a refusal
MAX_PLAN_LENGTH = 20_000  # characters of a plan as JSON; one of ours has about 2,000
MAX_PLAN_IMAGE_SIZE = 2048  # pixels of a side, in the plan that a client receives
MAX_SCORES = 1_000_000_000  # images whose OOD scores are summed
MAX_RECORDS = 32  # records of a message
MAX_ARRAYS = 16  # arrays of a message
MAX_EXAMPLES = 10_000_000  # images of a client, which are its weight in a mean
MAX_FEATURE = 1e6  # the largest absolute value of a feature, by which sums over images are bounded
MAX_SCORE_SUM = 1e15  # the same of what is summed over the scores of an image
MAX_OBJECTS = 256  # objects into which Flower divides a message; an array of 5 MiB or less is two
MAX_OBJECT_BYTES = 6 << 20  # bytes of a request to the server's port: one of Flower's objects has up to 5 MiB
MAX_SETTINGS_BYTES = 4 << 20  # bytes of a message's settings and metrics; in memory up to 28 times as much
MAX_MESSAGE_BYTES = 128 << 20  # bytes of a message with all its objects, also as it is expanded
