"""One changed file becomes one small layer, and nothing of the result tells how it was made."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.engine import client, image
from support.image_trees import Made, docker_build, files_in, layers_of, removed_at_the_end
from support.registry import registry
from support.trees import contents, make, nested
from wherry.workspace import image_labels, image_layers
from wherry.workspace.image import Built, ensure_image, plan_image
from wherry.workspace.push import push_image


@pytest.fixture
def made() -> Iterator[Made]:
    with removed_at_the_end() as noted:
        yield noted


@pytest.fixture
def base(made: Made) -> str:
    """A base that no other test has, so that none finds the images of another."""
    return fresh_base(made)


def fresh_base(made: Made) -> str:
    name = f"wherry-test/ground-{uuid.uuid4().hex[:8]}"
    docker_build(name, f"FROM {image('busybox')}\nLABEL x={name}\nRUN mkdir /work\nWORKDIR /work")
    return made.note(name)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    make(top, {b"train.py": b"print(1)", b"data/words": os.urandom(300_000), b"data/empty": None})
    return top


def build(made: Made, base: str, tree: Path) -> tuple[str, Built]:
    plan = plan_image(base, str(tree))
    built = ensure_image(plan)
    return made.note(plan.name), built


def test_a_changed_file_is_one_layer_over_the_image_before(made, base, tree):
    before, first = build(made, base, tree)
    (tree / "train.py").write_text("print(2)")

    after, second = build(made, base, tree)

    assert (first.made, first.added) == (True, None)
    assert (second.made, second.added) == (True, 1)
    assert layers_of(after)[:-1] == layers_of(before)
    assert files_in(after) == contents(tree)


def test_what_is_new_comes_with_its_folders_links_and_modes(made, base, tree):
    before, _ = build(made, base, tree)
    (tree / "new" / "deep").mkdir(parents=True)
    (tree / "new" / "deep" / "run").write_text("x")
    (tree / "new" / "deep" / "run").chmod(0o750)
    (tree / "new" / "nothing").mkdir(mode=0o700)
    (tree / "link").symlink_to("data/words")
    (tree / "train.py").chmod(0o755)
    (tree / "data").chmod(0o700)

    after, built = build(made, base, tree)

    assert built.added == 3
    assert layers_of(after)[:-1] == layers_of(before)
    assert files_in(after) == contents(tree)


def test_a_link_that_points_elsewhere_is_replaced_and_not_followed(made, base, tree):
    (tree / "link").symlink_to("data/words")
    build(made, base, tree)
    (tree / "link").unlink()
    (tree / "link").symlink_to("train.py")

    after, built = build(made, base, tree)

    assert built.added == 1
    assert files_in(after) == contents(tree)


def remove_a_file(tree: Path) -> None:
    (tree / "train.py").unlink()


def remove_a_folder(tree: Path) -> None:
    (tree / "data" / "empty").rmdir()


def put_a_folder_where_a_file_was(tree: Path) -> None:
    (tree / "train.py").unlink()
    (tree / "train.py").mkdir()


def put_a_file_where_a_folder_was(tree: Path) -> None:
    (tree / "data" / "empty").rmdir()
    (tree / "data" / "empty").write_text("x")


def put_a_link_where_a_folder_was(tree: Path) -> None:
    shutil.move(tree / "data", tree / "elsewhere")
    (tree / "data").symlink_to("elsewhere")


@pytest.mark.parametrize(
    "change",
    [
        remove_a_file,
        remove_a_folder,
        put_a_folder_where_a_file_was,
        put_a_file_where_a_folder_was,
        put_a_link_where_a_folder_was,
    ],
)
def test_what_a_layer_cannot_say_starts_anew(made, base, tree, change):
    build(made, base, tree)
    change(tree)

    after, built = build(made, base, tree)

    assert built == Built(built.image_id, made=True, added=None)
    assert len(layers_of(after)) == len(layers_of(base)) + 1
    assert files_in(after) == contents(tree)


def test_a_chain_that_is_too_deep_starts_anew(made, base, tree, monkeypatch):
    monkeypatch.setattr(image_layers, "DEPTH_MOST", 2)
    monkeypatch.setattr(image_layers, "LOOKED_AT", 1)
    depths = []
    for number in range(4):
        (tree / "train.py").write_text(f"print({number})")
        name, _ = build(made, base, tree)
        with client() as docker:
            depths.append(docker.inspect_image(name)["Config"]["Labels"][image_labels.DEPTH])

    assert depths == ["0", "1", "2", "0"]


def test_layers_that_hold_more_than_the_tree_start_anew(made, base, tree, monkeypatch):
    monkeypatch.setattr(image_layers, "ALWAYS_STACKED", 0)
    monkeypatch.setattr(image_layers, "LOOKED_AT", 1)
    added = []
    for _ in range(3):
        (tree / "data" / "words").write_bytes(os.urandom(200_000))
        added.append(build(made, base, tree)[1].added)

    assert added == [None, 1, None]


def test_an_image_whose_listing_is_lost_is_not_built_on(made, base, tree):
    build(made, base, tree)
    shutil.rmtree(image_layers.listings_folder())
    (tree / "train.py").write_text("print(2)")

    after, built = build(made, base, tree)

    assert built.added is None
    assert files_in(after) == contents(tree)


def test_a_damaged_listing_is_not_believed(made, base, tree):
    build(made, base, tree)
    (listing,) = Path(image_layers.listings_folder()).iterdir()
    listing.write_text(listing.read_text()[:50])
    (tree / "train.py").write_text("print(2)")

    assert build(made, base, tree)[1].added is None


def test_two_projects_on_one_base_build_each_on_their_own(made, base, tree, tmp_path):
    other = tmp_path / "other"
    make(other, {b"serve.py": b"1"})
    build(made, base, tree)
    build(made, base, other)
    (tree / "train.py").write_text("print(2)")

    after, built = build(made, base, tree)

    assert built.added == 1
    assert files_in(after) == contents(tree)


@pytest.mark.parametrize("extra", ["VOLUME /work/data", "ONBUILD RUN true", "CMD []"])
def test_bases_that_only_a_build_treats_right(made, base, tree, extra):
    special = f"wherry-test/special-{uuid.uuid4().hex[:8]}"
    docker_build(special, f"FROM {base}\n{extra}")
    made.note(special)
    before, _ = build(made, special, tree)
    (tree / "train.py").write_text("print(2)")

    after, built = build(made, special, tree)

    assert built.added == 1
    assert layers_of(after)[: len(layers_of(before))] == layers_of(before)
    assert content_of(made, after) == contents(tree)


def content_of(made: Made, name: str) -> dict[str, tuple[str, int, bytes | str]]:
    """Return the files of an image itself, where a container of it would have a volume."""
    plain = f"wherry-test/plain-{uuid.uuid4().hex[:8]}"
    docker_build(
        plain, f"FROM {name} AS given\nFROM {image('busybox')}\nCOPY --from=given /work /w"
    )
    return files_in(made.note(plain), "/w")


def test_what_the_base_says_of_itself_is_kept(made, tree):
    base = f"wherry-test/ground-{uuid.uuid4().hex[:8]}"
    lines = (
        f"FROM {image('busybox')}\nLABEL mine=yes\nENV A=1\nUSER 7:8\nWORKDIR /srv/app\n"
        'ENTRYPOINT ["/bin/echo"]\nCMD ["x"]\nSTOPSIGNAL SIGUSR1\nEXPOSE 80\n'
        "HEALTHCHECK --interval=7s CMD true"
    )
    docker_build(base, lines)
    made.note(base)
    build(made, base, tree)
    (tree / "train.py").write_text("print(2)")
    name, _ = build(made, base, tree)

    with client() as docker:
        ours, theirs = (docker.inspect_image(name)["Config"] for name in (name, base))
    labels = {key: ours["Labels"][key] for key in theirs["Labels"]}
    hidden = {"Hostname", "Image"}
    assert {**ours, "Labels": labels} | dict.fromkeys(hidden, "") == theirs | dict.fromkeys(
        hidden, ""
    )
    assert files_in(name) == contents(tree)


def test_nothing_is_left_of_the_making(made, base, tree):
    build(made, base, tree)
    plan = plan_image(base, str(tree))

    with client() as docker:
        names = [name for box in docker.containers(all=True) for name in box["Names"]]
    assert not [name for name in names if plan.tag[:12] in name]


def test_a_push_sends_the_small_layer_alone(made, base, tree, tmp_path):
    with registry(tmp_path / "registry") as host:
        repository = f"{host}/team/app"
        first, _ = build(made, base, tree)
        push_image(first, repository, "one", quiet=True)
        made.note(f"{repository}:one")
        before = blobs(tmp_path / "registry")
        (tree / "train.py").write_text("print(2)")
        second, _ = build(made, base, tree)

        push_image(second, repository, "two", quiet=True)

        made.note(f"{repository}:two")
        sent = {name: size for name, size in blobs(tmp_path / "registry").items()
                if name not in before}  # fmt: skip
    assert sum(before.values()) > 300_000
    assert len(sent) == 3  # the layer, the configuration, the manifest
    assert sum(sent.values()) < 20_000


def blobs(folder: Path) -> dict[str, int]:
    """Return the blobs that a registry has, by digest, with their sizes."""
    return {
        path.parent.name: path.stat().st_size for path in folder.glob("data/**/blobs/*/*/*/data")
    }


NAMES = st.sampled_from([b"a", b"b", b".c", b"d e", b"\xe9", b"-f", b"g*"])


@pytest.fixture(scope="module")
def shared_base() -> Iterator[str]:
    with removed_at_the_end() as noted:
        yield fresh_base(noted)


@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a build takes too long to shrink
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(nested(NAMES, depth=3, most=6), st.sampled_from([0o644, 0o755, 0o600])),
        min_size=2,
        max_size=4,
    )
)
def test_whatever_was_built_before_the_files_are_the_trees(shared_base, tmp_path, steps):
    """Trees laid over each other, one after the other: some add, some turn files into folders."""
    top = tmp_path / uuid.uuid4().hex
    with removed_at_the_end() as made:
        for files, mode in steps:
            for path in files:
                place = Path(os.fsdecode(os.path.join(os.fsencode(top), path)))
                if place.is_file() or any(above.is_file() for above in place.parents):
                    shutil.rmtree(top)
                    break
            top.mkdir(exist_ok=True)
            make(top, {p: c for p, c in files.items() if not (c is not None and
                       os.path.isdir(os.path.join(os.fsencode(top), p)))})  # fmt: skip
            for above, _, names in os.walk(top):
                for name in names:
                    os.chmod(os.path.join(above, name), mode)
            name, _ = build(made, shared_base, top)
            assert files_in(name) == contents(top)
