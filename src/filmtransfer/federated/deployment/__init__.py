"""A federation of several machines: Flower's SuperLink and SuperNode, with restricted access.

``server`` and ``client`` start and monitor the processes; all messages are Flower's.
"""
