"""What reading an answer can end in, other than a tree."""


class ParseError(ValueError):
    """The text is no answer that the grammar knows; the message names what was found and where."""


class TooLarge(ParseError):
    """The text, its nesting or one of its numbers is beyond the limits; nothing was tried."""
