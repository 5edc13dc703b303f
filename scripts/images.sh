#!/bin/sh
# Make the images that tests run, without pulling anything where that can be avoided:
#
#   wherry-test/busybox  a static busybox with all its commands; there in a second
#   wherry-test/python   a small Debian with Python; there in a minute, from a cached archive after
#
# images.sh [busybox] [python]; without words, both. Does nothing for an image that is there.
# Safe to run twice at the same time. The cache is in ${XDG_CACHE_HOME:-~/.cache}/wherry.
set -eu
recipe=1 # goes up when what is in the images changes
cache=${XDG_CACHE_HOME:-$HOME/.cache}/wherry
mirror=${WHERRY_DEBIAN_MIRROR:-http://deb.debian.org/debian}
work=

fail() {
    echo "cannot make the image $1: $2" >&2
    exit 1
}

is_there() {
    [ "$(docker image inspect --format '{{index .Config.Labels "org.wherry.test.recipe"}}' "wherry-test/$1" 2> /dev/null)" = "$recipe" ]
}

have() { # have COMMAND PACKAGE
    command -v "$1" > /dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
    echo "installing $2"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2" > /dev/null 2>&1 ||
        { apt-get update -q > /dev/null &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2" > /dev/null 2>&1; }
}

into_docker() { # into_docker NAME ARCHIVE [CHANGE]...
    name=$1
    archive=$2
    shift 2
    docker import --change "LABEL org.wherry.test.recipe=$recipe" "$@" "$archive" "wherry-test/$name" > /dev/null
}

pulled() { # pulled NAME IMAGE: for machines that are no Debian of root's
    echo "pulling $2"
    printf 'FROM %s\nLABEL org.wherry.test.recipe=%s\n' "$2" "$recipe" |
        docker build --quiet --tag "wherry-test/$1" - > /dev/null ||
        fail "wherry-test/$1" "$2 could not be pulled, and $3"
}

make_busybox() {
    is_there busybox && return
    if ! have busybox busybox-static; then
        pulled busybox busybox:musl "there is no busybox to make it of"
        return
    fi
    root=$work/busybox
    mkdir -p "$root/bin" "$root/tmp" "$root/etc"
    chmod 1777 "$root/tmp"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in $("$root/bin/busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
    done
    printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' > "$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' > "$root/etc/group"
    tar -C "$root" --owner 0 --group 0 -cf "$work/busybox.tar" .
    into_docker busybox "$work/busybox.tar" --change 'ENV PATH=/bin' --change 'CMD ["sh"]'
    docker run --rm --network none wherry-test/busybox true ||
        fail wherry-test/busybox "what was made of $(command -v busybox) does not run; install busybox-static"
}

make_python() {
    is_there python && return
    archive=$cache/python-$recipe.tar
    if ! [ -s "$archive" ]; then
        if [ "$(id -u)" != 0 ] || ! have debootstrap debootstrap; then
            pulled python python:3-slim "debootstrap, which would make it, needs root on a Debian"
            return
        fi
        echo "making a small Debian with Python in $cache; it takes a minute"
        suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}") || suite=
        debootstrap --variant=minbase --include=python3 "${suite:-bookworm}" "$work/python" "$mirror" > "$cache/debootstrap.log" 2>&1 ||
            fail wherry-test/python "debootstrap failed; see $cache/debootstrap.log"
        rm -rf "$work"/python/var/cache/apt/* "$work"/python/var/lib/apt/lists/* \
            "$work"/python/usr/share/doc/* "$work"/python/usr/share/man/* "$work"/python/usr/share/locale/*
        tar -C "$work/python" --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* -cf "$work/python.tar" .
        mv "$work/python.tar" "$archive" # whole or not at all
    fi
    into_docker python "$archive" --change 'CMD ["python3"]'
}

docker version > /dev/null 2>&1 || fail "wherry-test/…" "no Docker Engine answers; scripts/engine.sh gets one"
mkdir -p "$cache"
exec 9> "$cache/images.lock"
flock 9
work=$(mktemp -d "$cache/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
[ $# -gt 0 ] || set -- busybox python
for image; do
    case $image in
        busybox | python) "make_$image" ;;
        *) fail "$image" "known are busybox and python" ;;
    esac
    echo "wherry-test/$image"
done
