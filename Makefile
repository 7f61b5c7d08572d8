# Every target does its own set-up, in .venv. They say what they do while they do it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUTPUT ?= runs/quickstart
SEED ?= 0
STEPS ?= 400
# Compiled files are kept: compiling the tests takes longer than collecting them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup quickstart real recipes test test-all test-vllm test-adapters test-ray chaos soak gpu-check check docs bench clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "verigym needs Python 3.11 or newer; $(PYTHON) is older, or does not start. Name another: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "==> making the virtual environment $(VENV)"
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
		else $(PYTHON) -m venv --without-pip $(VENV) && $(BIN)/python .ci/bootstrap_pip.py; fi
	@echo "==> installing verigym with its training and development packages (some minutes)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --constraint constraints.txt --constraint lock.txt --editable '.[train,data,math-verify,lora,quant,dev,docker,constraints,format,match,games,language,retrieval,mcp,serve,client,docs,scale]'
	@# Compiling every file takes a minute. Programs in the sandbox cannot keep compiled files, so what they import is compiled here.
	@$(BIN)/python -c 'import datasets, numpy, sympy, torch'
	@touch $@

quickstart: setup
	@echo "==> training a small model from nothing, 5 to 12 minutes on 2 cores; Ctrl-C stops it, the same command goes on"
	@$(BIN)/verigym quickstart --output $(OUTPUT) --seed $(SEED) --steps $(STEPS)

MODELS := runs/models
real: setup
	@echo "==> a pretrained chat model of 135M parameters learns two tasks, half an hour of CPU time, up to an hour on 2 busy cores; Ctrl-C stops it, the same command goes on"
	@$(BIN)/python recipes/pretrained/prepare.py $(MODELS)/tasks $(MODELS)/smollm2-135m-instruct
	@$(BIN)/verigym pipeline run recipes/pretrained/run.yaml
	@$(BIN)/verigym report runs/real/rl-* runs/real/held-out-* --out runs/real/report.html

recipes: setup
	@echo "==> DeepSeek-R1's stages on a small model from nothing, and an ablation; under an hour on 2 cores; Ctrl-C stops it, the same command goes on"
	@$(BIN)/verigym pipeline run recipes/r1_small.yaml

# One process more than cores, up to nine: tests often wait for a process of their own. Whole files to a process: what a file starts is started once.
JOBS ?= $(shell cores=$$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc); echo $$((cores < 8 ? cores + 1 : 9)))
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder

test: setup
	@echo "==> running the tests"
	@$(PYTEST) -m "not slow"

test-all: setup
	@echo "==> running the tests with the slow ones"
	@$(PYTEST)

test-vllm: setup
	@echo "==> training with a real vLLM, which gets a virtual environment of its own; about ten minutes"
	@VERIGYM_TEST_VLLM=1 $(BIN)/python -m pytest -s tests/trainer/engines/test_vllm.py tests/trainer/engines/test_vllm_server.py

test-adapters: setup
	@echo "==> scoring and training with other trainers, each in a virtual environment of its own, in .venv-adapters; minutes each"
	@VERIGYM_TEST_ADAPTERS=1 VERIGYM_ADAPTER_VENVS=$${VERIGYM_ADAPTER_VENVS:-$(CURDIR)/.venv-adapters} OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -q -rs tests/adapters -m slow

test-ray: setup
	@echo "==> grading on two Ray nodes of this machine, in a virtual environment of its own, .venv-ray; three minutes"
	@VERIGYM_TEST_RAY=1 VERIGYM_RAY_VENV=$${VERIGYM_RAY_VENV:-$(CURDIR)/.venv-ray} \
		$(BIN)/python -m pytest -q -rs tests/cluster/test_ray.py

chaos: setup
	@echo "==> faults put in by hand: docs/reliability.md says what must hold; some minutes"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile -m chaos

MINUTES ?= 10
EVERY ?= 60
soak: setup
	@echo "==> a run with random kills beside one that is left alone, $(MINUTES) minutes"
	@$(BIN)/python benchmarks/soak.py --minutes $(MINUTES) --every $(EVERY)

gpu-check: setup
	@echo "==> checking what only a GPU can show, five to ten minutes; the report goes into gpu-check.json"
	@$(BIN)/verigym gpu-check

check: setup
	@echo "==> ruff, mypy, layout and import direction"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_layout.py

# Strict: a broken link or anchor, or a page that is not in the navigation, fails it.
docs: setup
	@echo "==> building the documentation into site, in about ten seconds"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html; with the search: $(BIN)/python -m http.server --directory site"

bench: setup
	@for file in benchmarks/*.py; do echo "==> $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
