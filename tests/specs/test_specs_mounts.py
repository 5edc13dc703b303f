"""Mounts, and the text that they are read from."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.errors import InvalidSpecError
from wherry.specs import BindMount, DeviceMount, Mount, VolumeMount, parse_mounts


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        # Every form of the TorchX pages.
        ("type=bind,src=/host,dst=/job", BindMount("/host", "/job")),
        ("type=bind,src=/host,dst=/job,readonly", BindMount("/host", "/job", read_only=True)),
        ("type=volume,src=fs-1,dst=/efs", VolumeMount("fs-1", "/efs")),
        ("type=volume,src=fs-1,dst=/efs,readonly", VolumeMount("fs-1", "/efs", read_only=True)),
        (
            "type=device,src=/dev/infiniband/uverbs0",
            DeviceMount("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0", "rwm"),
        ),
        ("type=device,src=/dev/a,dst=/dev/b", DeviceMount("/dev/a", "/dev/b")),
        ("type=device,src=/dev/a,perm=rw", DeviceMount("/dev/a", "/dev/a", "rw")),
        ("type=device,src=/dev/a,dst=/dev/b,perm=rwm", DeviceMount("/dev/a", "/dev/b", "rwm")),
        # The page's "src=…,[dst=…][,perm=…]", with the optional part left out, has two commas.
        ("type=device,src=/dev/a,,perm=r", DeviceMount("/dev/a", "/dev/a", "r")),
        # Docker's other words for the same.
        ("type=bind,source=/host,target=/job,ro", BindMount("/host", "/job", read_only=True)),
        ("type=bind,source=/host,destination=/job", BindMount("/host", "/job")),
        ("type=bind,src=/host,dst=/job,readonly=true", BindMount("/host", "/job", read_only=True)),
        ("type=bind,src=/host,dst=/job,readonly=False", BindMount("/host", "/job")),
        # Spaces around a comma, options in any order, "=" within a path.
        ("type=bind, dst=/job , src=/a b=c", BindMount("/a b=c", "/job")),
    ],
)
def test_one_text_is_one_mount(text: str, mount: Mount) -> None:
    assert parse_mounts([text]) == [mount]
    assert parse_mounts(text.split(",")) == [mount]
    assert parse_mounts(text) == [mount]


def test_several_mounts_in_one_list_keep_their_order() -> None:
    words = [
        "type=bind", "src=/a", "dst=/b", "readonly",
        "type=device,src=/dev/infiniband/uverbs0,perm=rw",
        "type=volume", "src=fs-1", "dst=/efs",
    ]  # fmt: skip

    assert parse_mounts(words) == [
        BindMount("/a", "/b", read_only=True),
        DeviceMount("/dev/infiniband/uverbs0", permissions="rw"),
        VolumeMount("fs-1", "/efs"),
    ]


def test_several_mounts_in_one_text() -> None:
    text = "type=bind,src=/a,dst=/b,type=bind,src=/c,dst=/d"

    assert parse_mounts([text]) == [BindMount("/a", "/b"), BindMount("/c", "/d")]


@pytest.mark.parametrize("nothing", [[], [""], [" , "], ""])
def test_no_words_are_no_mounts(nothing: Any) -> None:
    assert parse_mounts(nothing) == []


def test_the_callers_list_is_not_changed() -> None:
    words = ["type=bind", "src=/a", "dst=/b"]

    parse_mounts(words)

    assert words == ["type=bind", "src=/a", "dst=/b"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["type=bnd,src=/a,dst=/b"], "unknown mount type 'bnd'; did you mean 'bind'"),
        (["type=,src=/a,dst=/b"], "unknown mount type ''"),
        (["type=bind,srce=/a,dst=/b"], "unknown mount option 'srce'; did you mean"),
        (["type=bind,src=/a,dst=/b,read_only"], "did you mean 'readonly'"),
        (["type=bind,src=/a"], "a bind mount needs dst="),
        (["type=bind,dst=/a"], "a bind mount needs src="),
        (["type=bind,src=,dst=/a"], "a bind mount needs src="),
        (["type=volume,src=fs-1"], "a volume mount needs dst="),
        (["type=device"], "a device mount needs src="),
        (["type=device,src=/dev/a,readonly"], "a device mount has no option 'readonly'"),
        (["type=bind,src=/a,dst=/b,perm=r"], "a bind mount has no option 'perm'"),
        (["type=volume,src=fs,dst=/b,perm=r"], "a volume mount has no option 'perm'"),
        (["type=device,src=/dev/a,perm=rx"], "'rx'"),
        (["type=device,src=/dev/a,perm=rr"], "'rr'"),
        (["type=device,src=/dev/a,perm="], "device permissions"),
        (["type=bind,src=/a,dst=/b,readonly=maybe"], "'maybe'"),
        (["type=bind,src=/a,source=/b,dst=/c"], "'source' is given twice"),
        (["src=/a,dst=/b"], "begins with type="),
        (["type=bind,src=/a,dst=/b", "type=bind"], "a bind mount needs src="),
        ([5], "not 5"),
    ],
)
def test_a_bad_text_is_refused_by_name(words: Any, named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        parse_mounts(words)

    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: BindMount("", "/b"), "BindMount.src_path"),
        (lambda: BindMount("/a", ""), "BindMount.dst_path"),
        (lambda: BindMount("/a", None), "BindMount.dst_path"),
        (lambda: BindMount("/a\0", "/b"), "BindMount.src_path"),
        (lambda: BindMount("/a", "/b", "no"), "BindMount.read_only"),
        (lambda: VolumeMount("", "/b"), "VolumeMount.src"),
        (lambda: VolumeMount("fs", "/b", 1), "VolumeMount.read_only"),
        (lambda: DeviceMount(""), "DeviceMount.src_path"),
        (lambda: DeviceMount("/dev/a", None), "DeviceMount.dst_path"),
        (lambda: DeviceMount("/dev/a", permissions=None), "device permissions"),
    ],
)
def test_a_bad_mount_is_refused_by_field(make: Any, named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        make()

    assert named in str(refused.value)


def test_a_device_is_seen_under_its_own_path_by_default() -> None:
    assert DeviceMount("/dev/fuse").dst_path == "/dev/fuse"


# A path that the text form can hold: a comma ends a word, and the space around one is dropped.
paths = st.text(st.characters(exclude_characters=",\0"), min_size=1).filter(
    lambda path: path == path.strip()
)
permissions = st.permutations("rwm").flatmap(
    lambda letters: st.integers(1, 3).map(lambda n: "".join(letters[:n]))
)
mounts = st.one_of(
    st.builds(BindMount, paths, paths, st.booleans()),
    st.builds(VolumeMount, paths, paths, st.booleans()),
    st.builds(DeviceMount, paths, paths, permissions),
)


def written(mount: Mount) -> list[str]:
    if isinstance(mount, DeviceMount):
        return [
            "type=device",
            f"src={mount.src_path}",
            f"dst={mount.dst_path}",
            f"perm={mount.permissions}",
        ]
    kind, src = ("bind", mount.src_path) if isinstance(mount, BindMount) else ("volume", mount.src)
    return [f"type={kind}", f"src={src}", f"dst={mount.dst_path}", *["readonly"] * mount.read_only]


@settings(deadline=None)
@given(st.lists(mounts), st.booleans())
def test_what_is_written_is_read_back(made: list[Mount], joined: bool) -> None:
    words = [word for mount in made for word in written(mount)]

    assert parse_mounts([",".join(words)] if joined else words) == made


@settings(deadline=None)
@given(st.lists(st.text()))
def test_garbage_is_refused_and_never_crashes(words: list[str]) -> None:
    with contextlib.suppress(InvalidSpecError):
        parse_mounts(words)
