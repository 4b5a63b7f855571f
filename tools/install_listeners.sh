#!/bin/sh
# Installs those of mpv and chromium that are named, which tests/listeners listens with, where that can be done without asking anybody: on Debian and
# its relatives, as root or with sudo that needs no password. Else it says what is missing; those tests are skipped.
set -u

missing=""
for program in "$@"; do
    command -v "$program" >/dev/null && continue
    if [ "$program" = chromium ]; then # under other names elsewhere
        command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null && continue
    fi
    missing="$missing $program"
done
[ -n "$missing" ] || exit 0

sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if command -v apt-get >/dev/null && $sudo true 2>/dev/null; then
    echo "Installing$missing ..."
    export DEBIAN_FRONTEND=noninteractive
    $sudo apt-get update -qq
    # One by one: what is there is tested.
    for package in $missing; do
        $sudo apt-get install -qq -y --no-install-recommends "$package" >/dev/null ||
            echo "$package could not be installed; its tests are skipped."
    done
else
    echo "Not installed:$missing. Their tests are skipped."
fi
