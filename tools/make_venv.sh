#!/bin/sh
# Makes the virtual environment $1 with $PYTHON, or with the first of the usual names that is 3.11 or newer
# and can make one. Says which package is missing when none can.
set -eu

venv=$1
minimum="3.11"

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

chosen="" too_old="" without_venv=""
for name in ${PYTHON:-python3.13 python3.12 python3.11 python3.14 python3 python}; do
    # A name may be a launcher for a version that is not installed, so each is asked rather than only found.
    version=$(version_of "$name") || continue
    if ! is_new_enough "$name"; then
        too_old="$too_old $name is $version;"
    elif ! can_make_venv "$name"; then
        without_venv=${without_venv:-$name}
    else
        chosen=$name
        break
    fi
done

if [ -z "$chosen" ] && [ -n "$without_venv" ]; then
    version=$(version_of "$without_venv")
    {
        echo "$without_venv (Python $version) cannot make a virtual environment: its modules venv and ensurepip are missing."
        echo "On Debian and Ubuntu they are the package python$version-venv:"
        echo "    sudo apt-get install python$version-venv      (or python3-venv, for the system's own Python)"
        echo "Then run make again."
    } >&2
    exit 1
fi
if [ -z "$chosen" ]; then
    {
        if [ -n "$too_old" ]; then
            echo "tonearm needs Python $minimum or newer, but$too_old no newer one was found."
        else
            echo "tonearm needs Python $minimum or newer; ${PYTHON:-python3} was not found."
        fi
        echo "Install one (Debian, Ubuntu: python3.11 and python3.11-venv), or name it: make PYTHON=/path/to/python3.12"
    } >&2
    exit 1
fi

echo "Making $venv with $chosen (Python $(version_of "$chosen")) ..."
"$chosen" -m venv --clear "$venv"
