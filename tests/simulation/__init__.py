"""The machine that tries to break the promise of contract section 5: never lost, never twice.

`python -m tests.simulation` runs seed after seed. Each seed is a whole program on a simulated machine, an
adversary that does to it what can be done to a program, several kills, and an oracle that reads the logs that
are left.
"""
