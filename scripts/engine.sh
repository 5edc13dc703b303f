#!/bin/sh
# Make sure that a Docker Engine answers, for the tests of what runs in containers.
#
# Does nothing where one answers. Where none does, and this is root on a Debian with apt, installs
# what is missing and starts one by hand. Elsewhere it says why not, and how to get one.
# Safe to run twice at the same time.
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/wherry
log=$cache/dockerd.log

answers() {
    docker version --format '{{.Server.Version}}' 2> /dev/null
}

fail() {
    cat >&2 << TEXT
There is no Docker Engine for the tests: $1.
To get one:
  - Debian or Ubuntu, as root:  apt-get install docker.io iptables && dockerd &
  - or start the one that is installed:  systemctl start docker
  - or install Docker Desktop or Docker Engine: https://docs.docker.com/engine/install/
  - or point DOCKER_HOST to an Engine on this machine, and make sure that $(id -un) may use it
    (group "docker").
TEXT
    exit 1
}

install() {
    missing=
    command -v dockerd > /dev/null && command -v docker > /dev/null || missing="docker.io"
    command -v iptables > /dev/null || missing="$missing iptables"
    [ -z "$missing" ] && return
    command -v apt-get > /dev/null || fail "it is not installed, and there is no apt-get to install it with"
    echo "installing$([ "$missing" = "${missing# }" ] && echo " ")$missing"
    # The package would start a service where an init system runs; by hand it is started below.
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing > "$cache/apt.log" 2>&1 ||
        { apt-get update -q > /dev/null &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing > "$cache/apt.log" 2>&1; } ||
        fail "apt-get could not install $missing; see $cache/apt.log"
}

start() {
    # A dockerd that was killed leaves its process file behind; it refuses to start only when the
    # process in it lives.
    echo "starting dockerd; its log is $log"
    setsid dockerd > "$log" 2>&1 < /dev/null 9>&- &
    daemon=$!
    waited=0
    until answers > /dev/null; do
        kill -0 "$daemon" 2> /dev/null || {
            tail -n 5 "$log" >&2
            fail "dockerd ended at once; see $log"
        }
        waited=$((waited + 1))
        [ "$waited" -lt 300 ] || fail "dockerd did not answer within 60 seconds; see $log"
        sleep 0.2
    done
}

if version=$(answers); then
    echo "Docker Engine $version"
    exit
fi
[ -z "${DOCKER_HOST:-}" ] || fail "DOCKER_HOST is $DOCKER_HOST, and nothing answers there"
if [ "$(id -u)" != 0 ]; then
    command -v docker > /dev/null || fail "it is not installed, and only root can install it"
    reason=$(docker version 2>&1 > /dev/null | tail -n 1)
    fail "only root can start it ($reason)"
fi
mkdir -p "$cache"
exec 9> "$cache/engine.lock"
flock 9
if ! answers > /dev/null; then
    install
    # Installing may have started one.
    answers > /dev/null || start
fi
echo "Docker Engine $(answers)"
