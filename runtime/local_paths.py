"""Local paths on the command line. URIs are refused: `s3a://bucket` would become a local directory named `s3a:`."""

import argparse
import re
from pathlib import Path
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def is_uri(text: str) -> bool:
    return _SCHEME.match(text) is not None


def local_path(text: str) -> Path:
    """For `argparse`: a path, or the path of a `file:` URI. Raises: ArgumentTypeError for every other URI."""
    if not is_uri(text):
        return Path(text)
    if text[:5].lower() == "file:":
        from urllib.parse import unquote, urlsplit

        parts = urlsplit(text)
        if parts.path.startswith("/") and parts.netloc in ("", "localhost") and not (parts.query or parts.fragment):
            return Path(unquote(parts.path))
        raise argparse.ArgumentTypeError(f"{text}: expected file:///PATH, with an absolute path on this machine")
    scheme = text.partition(":")[0]
    raise argparse.ArgumentTypeError(
        f"{text}: only local files can be used, not {scheme}: URIs; mount or copy it"
        f" (if a local file has that name, write ./{text})"
    )
