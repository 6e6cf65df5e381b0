"""Text from any source, such as an exception's message or a file name, made safe for records and readers."""

from __future__ import annotations

import re

# Control characters; characters that reverse or hide the text around them; line ends that only some readers know;
# non-characters; surrogates, which no file can contain and which Python uses for file names that are not UTF-8.
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_BYTES_OF_NAMES = range(0xDC80, 0xDD00)  # PEP 383


def visible(text: str, keep: str = "") -> str:
    r"""Return a text with invisible characters, except those in `keep`, as Python escapes them: ``\x1b``."""
    if text.isprintable():  # none of those characters is, and this is much faster
        return text
    return _INVISIBLE.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def cut(text: str, most: int) -> str:
    """Return a text of at most about `most` characters: its beginning, its length, and its end."""
    if len(text) <= most:
        return text
    head = 2 * most // 3
    return f"{text[:head]} … ({len(text):,} characters) … {text[head - most :]}"


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _BYTES_OF_NAMES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode() if code < 0xD800 or code > 0xDFFF else f"\\u{code:04x}"
