"""A place for things."""


class Shelf:
    """Things are taken in the opposite order of being put.

    ●●● · about 3 lines
    """

    def __init__(self):
        self.things = []

    def put(self, thing):
        """Add a thing."""
        # solution:begin where does it go?
        self.things.append(thing)
        # solution:end

    def take(self):
        """Return the thing that was put last and is still there."""
        # solution:begin which one?
        return self.things.pop()
        # solution:end
