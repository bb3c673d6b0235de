# Two commands: `make rehearse` and `make test`. Both set up what they need; the first time takes some minutes.
.DEFAULT_GOAL := help
.PHONY: help setup rehearse test lint generate bench clean

UV := 0.13.8
# Use the system's CA certificates: a proxy's own authority is installed there
export UV_SYSTEM_CERTS := 1
AGENTENV := .venv/bin/agentenv

help: ## this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.synced ## the virtual environment with the locked dependencies

# Made by the machine's own Python, filled by uv from the lock file. The stamp is written last, so that a set-up which
# was killed half-way is done again, and one that is complete needs no network.
.venv/.synced: pyproject.toml uv.lock
	@set -e; \
	python=''; \
	for candidate in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'make: Python 3.11 or newer is needed and none was found; install one, or name it: make PYTHON=/path/to/python3 …' >&2; exit 1; \
	fi; \
	if ! .venv/bin/python -c '' >/dev/null 2>&1; then \
	  echo "setting up .venv with $$("$$python" --version)"; \
	  "$$python" -m venv --clear .venv || { \
	    echo "make: $$python cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	fi; \
	.venv/bin/python -m pip install --quiet --disable-pip-version-check 'uv==$(UV)'; \
	.venv/bin/uv sync --frozen --quiet --offline 2>/dev/null || .venv/bin/uv sync --frozen --quiet; \
	touch $@

rehearse: setup ## bring the local stack up and down again on this machine
	@$(AGENTENV) rehearse $(ARGS)

test: setup ## every check and every test; says what ran and what did not
	@.venv/bin/python -m tests.gate $(ARGS)

lint: setup ## the checks without the tests
	@.venv/bin/python -m tests.gate --lint

generate: setup ## write the generated files anew
	@.venv/bin/python -m agentenv.generate

bench: setup ## the benchmarks, each beside its baseline
	@for one in startup preview rehearsal plane claims service attribution policies gate; do $(AGENTENV) bench $$one || exit 1; done

clean: ## remove what make made here (the cache of built tools stays)
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
