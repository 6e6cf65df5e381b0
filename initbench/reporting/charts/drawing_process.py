"""What `rendering` runs as a process of its own: a line of Vega-Lite in, a line with its SVG as JSON out.

It is run by its path, so that it loads nothing of this package. Its first argument is the version of Vega-Lite. What
cannot be drawn is answered by ``null``.
"""

from __future__ import annotations

import json
import sys

import vl_convert


def main() -> None:
    """Answer each line until there are no more."""
    for line in sys.stdin.buffer:
        try:
            drawn = vl_convert.vegalite_to_svg(line.decode(), vl_version=sys.argv[1])
        except Exception:  # noqa: BLE001 - whoever asked draws it again and sees what is wrong
            drawn = None
        sys.stdout.buffer.write(json.dumps(drawn).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
