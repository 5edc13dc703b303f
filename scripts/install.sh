#!/bin/sh
# Make an environment and install this project into it: install.sh FOLDER WHAT
# Says what it does, and what is in the way when it cannot.
set -eu
folder=$1
what=$2
python=${PYTHON:-python3}

fail() {
    echo "cannot set up $folder: $1" >&2
    exit 1
}

command -v "$python" > /dev/null || fail "there is no $python; install Python 3.10 or newer, or say make PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$python is $("$python" --version); Wherry needs 3.10 or newer (make PYTHON=/path/to/python)"

if command -v uv > /dev/null; then
    echo "setting up $folder with uv"
    [ -x "$folder/bin/python" ] || uv venv --quiet --python "$python" "$folder"
    uv pip install --quiet --python "$folder/bin/python" --editable "$what"
    exit
fi

echo "setting up $folder with pip (uv would be faster)"
if ! [ -x "$folder/bin/pip" ]; then
    if ! "$python" -m venv "$folder" 2> /dev/null; then
        rm -rf "$folder"
        # Debian keeps the module that makes environments in a package of its own.
        [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null ||
            fail "$python -m venv does not work; install it (Debian: apt-get install python3-venv)"
        echo "installing python3-venv"
        apt-get install -y -q python3-venv > /dev/null 2>&1 ||
            { apt-get update -q > /dev/null && apt-get install -y -q python3-venv > /dev/null; } ||
            fail "python3-venv could not be installed"
        "$python" -m venv "$folder"
    fi
fi
"$folder/bin/pip" install --quiet --disable-pip-version-check --editable "$what"
