"""One port for all of it: the front, the faults on the way, and the admin path."""
