"""Names for the bytes of JSON, which machine code uses as constants.

Source: RFC 8259 for their meanings; RFC 4648 for the letters of base64.
"""

QUOTE = ord('"')
BACKSLASH = ord("\\")
SLASH = ord("/")
COMMA = ord(",")
COLON = ord(":")
OBJECT_START, OBJECT_END = ord("{"), ord("}")
ARRAY_START, ARRAY_END = ord("["), ord("]")

MINUS, PLUS, POINT = ord("-"), ord("+"), ord(".")
ZERO, NINE = ord("0"), ord("9")
LARGE_A, LARGE_Z = ord("A"), ord("Z")
SMALL_A, SMALL_E, SMALL_F, SMALL_Z = b"aefz"
PADDING = ord("=")
SMALL = ord("a") ^ ord("A")
"""The bit that a small letter has and its large one lacks."""

NULL_START, TRUE_START, FALSE_START = ord("n"), ord("t"), ord("f")
"""The first letters of `null`, `true` and `false`; no other token begins with them."""

ESCAPED_BACKSPACE, ESCAPED_FORM_FEED = ord("b"), ord("f")
ESCAPED_LINE_FEED, ESCAPED_RETURN, ESCAPED_TAB = ord("n"), ord("r"), ord("t")
"""Letters after a backslash."""
ESCAPED_CODE = ord("u")
"""The letter after a backslash that four hexadecimal digits follow."""
BACKSPACE, TAB, LINE_FEED, FORM_FEED, RETURN = b"\b\t\n\f\r"
"""The bytes that these letters stand for."""
SPACE = ord(" ")

CONTINUATION_MASK, CONTINUATION = 0xC0, 0x80
"""The upper two bits of each byte of UTF-8 after the first one of its character."""
ASCII_END = 0x80
"""The first byte outside ASCII."""
