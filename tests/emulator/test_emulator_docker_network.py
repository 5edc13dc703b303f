"""How containers on a real Docker Engine reach this machine, its credentials, and each other."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.engine import Bench, bench, container, image, left, packages
from support.waiting import until
from wherry.emulator.engines.api import ContainerEnd, Mount


class _Answers(BaseHTTPRequestHandler):
    """Credentials, as ECS serves them, at every path."""

    def do_GET(self) -> None:
        body = json.dumps(
            {
                "AccessKeyId": "AKIAFROMTHEROLE",
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": "2099-01-01T00:00:00Z",
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served(address: str) -> Iterator[int]:
    """Serve on an address; gives the port."""
    with ThreadingHTTPServer((address, 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """An engine on a machine that has its own credentials where those of jobs would be."""
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/host")
    with bench(tmp_path) as made:
        yield made


@contextmanager
def at_the_credentials_address(state: Path) -> Iterator[Bench]:
    """Open an engine that has 169.254.170.2; other tests may have it for a while."""
    end = 60.0

    def opened() -> tuple[Bench, object] | None:
        opening = bench(state)
        made = opening.__enter__()
        if made.engine.credential_host:
            return made, opening
        opening.__exit__(None, None, None)
        return None

    made, opening = until(opened, "169.254.170.2 to be free", end)
    try:
        yield made
    finally:
        opening.__exit__(None, None, None)


ASK_FOR_CREDENTIALS = """
import boto3
print(boto3.Session().get_credentials().get_frozen_credentials().access_key)
"""


def test_an_unmodified_boto3_gets_credentials_at_the_address_of_ecs(tmp_path: Path) -> None:
    with at_the_credentials_address(tmp_path) as docker:
        assert docker.engine.credential_host == "169.254.170.2"
        assert docker.engine.addresses() == ("169.254.170.2",)
        assert docker.engine.notes == ()
        with served("169.254.170.2") as port:
            end, said = docker.run(
                "python3",
                "-c",
                ASK_FOR_CREDENTIALS,
                image=image("python"),
                memory_mib=512,
                mounts=(Mount("/packages", packages(), read_only=True),),
                env=(
                    ("PYTHONPATH", "/packages"),
                    ("PYTHONDONTWRITEBYTECODE", "1"),
                    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{docker.engine.endpoint(port)}/x"),
                ),
            )

    assert (end, said) == (ContainerEnd(0), "AKIAFROMTHEROLE\n")


def test_a_second_emulator_finds_another_address_and_says_so(tmp_path: Path) -> None:
    with at_the_credentials_address(tmp_path), bench(tmp_path) as second:
        (address,) = second.engine.addresses()

        assert second.engine.credential_host == ""
        assert address != "169.254.170.2"
        assert "169.254.170.2" in second.engine.notes[0]
        assert "environment variables" in second.engine.notes[0]
        with served(address) as port:
            end, said = second.run("wget", "-q", "-O", "-", second.engine.endpoint(port))
        assert end == ContainerEnd(0)
        assert "AKIAFROMTHEROLE" in said


def test_a_machine_with_credentials_of_its_own_there_keeps_them(elsewhere: Bench) -> None:
    assert elsewhere.engine.credential_host == ""
    assert "ECS_CONTAINER_METADATA_URI_V4" in elsewhere.engine.notes[0]


@pytest.mark.parametrize("more", [{"network": "job"}, {"host_network": True}, {}])
def test_every_container_reaches_a_server_on_the_gateway(
    elsewhere: Bench, more: dict[str, object]
) -> None:
    with served(elsewhere.engine.addresses()[0]) as port:
        made = elsewhere.start(
            container("wget", "-q", "-O", "-", elsewhere.engine.endpoint(port)), **more
        )
        assert elsewhere.end(made) == ContainerEnd(0)

    assert b"AKIAFROMTHEROLE" in elsewhere.output(made)


def test_nodes_of_a_job_reach_each_other_and_other_jobs_do_not(elsewhere: Bench) -> None:
    serve = "mkdir /w; echo served > /w/index.html; echo ready; exec httpd -f -p 8080 -h /w"
    main = elsewhere.start(container("sh", "-c", serve), network="gang")
    address = elsewhere.started(main).address
    elsewhere.says(main, b"ready")

    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {address} 8080"
    node = elsewhere.start(container("sh", "-c", ask), network="gang")
    stranger = elsewhere.start(container("sh", "-c", ask), network="other")

    assert elsewhere.end(node) == ContainerEnd(0)
    assert elsewhere.output(node).endswith(b"served\n")
    assert elsewhere.end(stranger).exit_code not in (None, 0)

    elsewhere.engine.stop(main.id, 0)
    elsewhere.ended(main)
    elsewhere.engine.forget_network("gang")
    network = f"wherry-{elsewhere.name}-gang"
    until(lambda: network not in left(elsewhere.name), "the end of the network")
