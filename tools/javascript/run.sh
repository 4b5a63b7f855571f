#!/bin/sh
# `run.sh check` looks at types and format of the pages' JavaScript, `run.sh format` puts the format right. What that needs
# is installed first. Where that cannot be done it says so, and is content.
set -u
cd "$(dirname "$0")"

skip() {
    echo "The JavaScript of the pages is not checked: $1."
    exit 0
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not there"
[ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 18')" = true ] || skip "node is older than 18"
if ! cmp -s package-lock.json node_modules/.of-lock; then
    echo "Installing what checks the JavaScript ..."
    if ! told=$(npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-timeout=30000 2>&1); then
        case $told in *EINTEGRITY*)
            echo "$told"
            exit 1
            ;;
        esac
        skip "npm could not install what that needs ($(echo "$told" | head -n 1))"
    fi
    cp package-lock.json node_modules/.of-lock
fi

files=$(find ../../src/tonearm/dashboard/page ../../src/tonearm/server -maxdepth 1 \( -name '*.js' -o -name types.d.ts \))
case $1 in
format) node_modules/.bin/prettier --config=prettier.json --log-level=warn --write $files ;;
check)
    echo "JavaScript: types, format"
    node_modules/.bin/tsc --project . && node_modules/.bin/prettier --config=prettier.json --log-level=warn --check $files
    ;;
esac
