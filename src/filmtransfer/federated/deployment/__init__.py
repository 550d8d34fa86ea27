"""A federation of real machines: Flower's SuperLink and SuperNode, started with locks on the doors.

``server`` and ``client`` start and watch the processes; everything that travels is Flower's.
"""
