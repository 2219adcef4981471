# The environment lives in .venv and is renewed when what it is made from changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: test demo record trust strategies schemas lint format

# pytest comes last: its summary is the last line of the output.
test: lint
	@$(BIN)/python -m pytest -n 2 --dist worksteal

# The whole job on a scratch copy: measured where there is an NVIDIA GPU, else replayed from benchmark/data.
demo: $(STAMP)
	@$(BIN)/warpsmith demo rms_norm

# Renews the recording that `make demo` replays. Needs an NVIDIA GPU and about ten minutes.
record: $(STAMP)
	@$(BIN)/warpsmith record rms_norm

# Writes the tables of docs/trust.md from the catalogue in tests/cheats/.
trust: $(STAMP)
	@$(BIN)/python tests/cheats/table.py

# Writes docs/strategies.md, the skill's briefs, and what recorded runs say of predictions, from the strategies' cards.
strategies: $(STAMP)
	@$(BIN)/python benchmark/strategies.py

# Writes docs/schemas/ from the contracts that the commands print.
schemas: $(STAMP)
	@$(BIN)/python -m warpsmith.cli.schemas docs/schemas

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# torch first and by its pin, so that no other requirement picks another, much larger build.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch triton
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
