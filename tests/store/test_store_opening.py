"""Which store a URL names, and what is said of one that names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherry.errors import StoreError
from wherry.store.opening import open_store


def test_a_path_and_its_url_name_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = f"file://{tmp_path}/x"

    for url in (
        "x",
        "./x",
        "~/x",
        f"{tmp_path}/x/",
        f"file://{tmp_path}/x",
        f"FILE://localhost{tmp_path}/x/",
    ):
        assert open_store(url).url == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://my-bucket", "s3://my-bucket"),
        ("s3://my-bucket/", "s3://my-bucket"),
        ("S3://my.bucket/a/b/", "s3://my.bucket/a/b"),
    ],
)
def test_a_bucket_may_have_a_prefix(url: str, expected: str) -> None:
    assert open_store(url).url == expected


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no folder in it"),
        ("file://", "no folder in it"),
        ("s3://", "no bucket in it"),
        ("s3:///prefix", "no bucket in it"),
        ("s3://a", "'a' cannot be a bucket's name"),
        ("s3://my_bucket?x/prefix", "cannot be a bucket's name"),
        ("s3a://bucket/prefix", "did you mean s3://bucket/prefix?"),
        ("fiel:///tmp/x", "did you mean file:///tmp/x?"),
        ("gs://bucket/prefix", "gs:// is not known; expected a folder"),
        ("https://bucket.s3.amazonaws.com/x", "https:// is not known; expected a folder"),
        ("file://home/me/x", "did you mean file:///home/me/x?"),
        ("s3:bucket/prefix", "did you mean s3://bucket/prefix?"),
        ("s3:/bucket/prefix", "did you mean s3://bucket/prefix?"),
        ("s3//bucket", "did you mean s3://bucket?"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, says: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)

    assert says in str(caught.value)
    assert repr(url) in str(caught.value)


def test_opening_asks_nobody_and_makes_nothing(tmp_path: Path) -> None:
    open_store(str(tmp_path / "store"))
    open_store("s3://no-such-bucket/x", profile="no such profile", endpoint="http://127.0.0.1:9")

    assert list(tmp_path.iterdir()) == []
