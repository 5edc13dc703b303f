"""Copy one file: python -c PROGRAM SRC DST."""

import os
import shutil
import sys
from importlib import import_module
from typing import Any, NoReturn


def _scheme_of(url: str) -> str:
    head, mark, _ = url.partition("://")
    return head.lower() if mark else "file"


def _path_of(url: str) -> str:
    if "://" not in url:
        return url
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)


def _give_up(why: object) -> NoReturn:
    sys.exit(f"copy: {why}")


def _open_with_fsspec(url: str, mode: str) -> Any:
    try:
        fsspec = import_module("fsspec")

        return fsspec.open(url, mode).open()
    except (ImportError, ValueError) as error:
        _give_up(f"{_scheme_of(url)}:// needs fsspec, and its part for it, in the image: {error}")


def _open_source(url: str) -> Any:
    scheme = _scheme_of(url)
    if scheme == "file":
        return open(_path_of(url), "rb")
    if scheme in ("http", "https"):
        from urllib.request import urlopen

        return urlopen(url)  # noqa: S310 - http and https alone come here
    return _open_with_fsspec(url, "rb")


def _open_target(url: str) -> Any:
    scheme = _scheme_of(url)
    if scheme in ("http", "https"):
        _give_up(f"cannot write to {scheme}://; only read")
    if scheme != "file":
        return _open_with_fsspec(url, "wb")
    path = _path_of(url)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return open(path, "wb")


def _is_same_file(src: str, dst: str) -> bool:
    if (_scheme_of(src), _scheme_of(dst)) != ("file", "file"):
        return src == dst
    paths = _path_of(src), _path_of(dst)
    return all(map(os.path.exists, paths)) and os.path.samefile(*paths)


def _main(src: str, dst: str) -> None:
    if _is_same_file(src, dst):
        _give_up("source and destination are the same file")
    try:
        with _open_source(src) as source, _open_target(dst) as target:
            shutil.copyfileobj(source, target, 1 << 20)
            # What an HTTP answer still owes; copying stops without a word at a lost connection.
            if getattr(source, "length", None):
                _give_up("the connection was lost before the end")
    except OSError as error:
        _give_up(error)
    print("copied")


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
