# Needs python3 (3.10 or newer) with venv, make, and Java 17 or newer; everything else comes from PyPI into .venv.
# Tests of Kafka, S3, Delta and Iceberg, and make demo-kafka, need Maven, too, the first time; without it those tests
# are skipped.
#   make test [ALL=1] [ARGS="tests/state -x"]   (eight minutes on two idle cores; with ALL=1 forty)
#   make test-rest   (what make test leaves out)   make test-delta   make test-cluster
#   make jars        (those of tests of Kafka, S3, Delta and Iceberg, into a cache; the tests do it, too)
#   make test-jobs [REFRESH=1]   (all public jobs, and docs/public-jobs.md)
#   make test-suites   (all cases of Spark's own suites, and docs/spark-suites.md)
#   make lint   make format   make clean
#   make demo   make demo-kafka
#   make docs        (the pages as a site, build/site/index.html)
#   make test-matrix [ARGS="--python 3.10 --spark 4.1 4.2"]   (a few tests with each version of PySpark and Python)
#   make test-matrix ARGS="--pyarrow [19 26]"   (those and the tests of scans and codecs with each version of PyArrow)
#   make chaos [SECONDS=300] [SEED=1] [ARGS="--run 17"]   (random jobs, random kills: tests/chaos/)
#   make chaos ARGS=--realtime                            (the same in Real-Time Mode, on a broker; also stops)
#   make bench [ARGS="-k backlog"]   make bench-full   make bench-backlogs   make bench-growth   make bench-peers
#       (benchmarks/README.md)

PYTHON ?= python3
VENV   ?= .venv
# Of the tests with Delta and Iceberg tables, which are not to be had for the newest Spark.
VENV_DELTA ?= .venv-delta
BIN    := $(VENV)/bin
ARGS   ?=
# As many tests at a time as keep the cores busy: each has a Spark of its own, or two, which compile their code anew.  On
# two cores `make test` once took 8:24 with two at a time, 9:02 with three, 9:13 with four.
# In the order of the folders the files that take minutes (tests/e2e) come first, so no process ends up alone.
JOBS   ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null); kib=$$(awk '/^MemAvailable/ { print $$2 }' /proc/meminfo 2>/dev/null); \
  [ "$${cores:-2}" -ge 4 ] && [ "$${kib:-0}" -ge 24000000 ] && echo 4 || echo 2)
# Of tests with tables: each process warms up two JVMs of its own for some fifteen tests.
JOBS_OF_TABLES ?= 2
# Markers that `make test` leaves out: tests that need servers or executors of their own, and further ones of a kind that
# take long. With ALL=1, or where ARGS has a marker expression or names a file, nothing is left out.
LEFT_OUT := kafka s3 cluster slow
ALL     ?=
# The part of Hypothesis' examples that make test tries; make test-rest tries the others.
SHARE   ?= 0.3
EMPTY   :=
OF_LEFT_OUT := $(subst $(EMPTY) $(EMPTY), or ,$(LEFT_OUT))
WITHOUT := $(if $(strip $(ALL) $(filter -m,$(ARGS)) $(findstring .py,$(ARGS))),,-m "not ($(OF_LEFT_OUT))")
PYTEST_WITH = $(BIN)/python -m pytest --numprocesses $(1) --dist loadfile --no-loadscope-reorder
PYTEST  := $(call PYTEST_WITH,$(JOBS))
# Beside the others a process for tests that kill processes and wait until they are missed (tests/kill_lane.py); they
# are many in make test-rest.  With JOBS=0 or 1 there is none.
WITH_KILLS := $(if $(filter 0 1,$(JOBS)),$(PYTEST),MIXEDMODE_KILL_LANE=gw$(JOBS) $(call PYTEST_WITH,$$(($(JOBS) + 1))))
# Of make test-jobs: not empty, and the results of stock Spark are computed again.
REFRESH ?=
# Of a chaos run.
SECONDS ?= 300
SEED    ?= 1

# Another Spark of the machine is not the one that is tested and shown here.
unexport SPARK_HOME SPARK_CONF_DIR

.PHONY: demo docs demo-kafka jars test test-rest test-delta test-jobs test-suites test-of-tables test-matrix chaos lint format bench bench-full bench-backlogs bench-growth bench-peers clean java
.DEFAULT_GOAL := test

demo: java $(VENV)/.installed-demo
	$(BIN)/python examples/demo.py $(ARGS)

demo-kafka: java $(VENV)/.installed-demo-kafka
	$(BIN)/python examples/demo.py --kafka $(ARGS)

test: java $(VENV)/.installed-test
	$(if $(WITHOUT),MIXEDMODE_EXAMPLES_SHARE=$(SHARE) )$(PYTEST) $(WITHOUT) $(ARGS)

# No core is idle: queries that wait for rows look for them less often, which saves a twelfth of the CPU time.
test-rest: java $(VENV)/.installed-test
	MIXEDMODE_POLLING_DELAY=75ms MIXEDMODE_EXAMPLES_TRIED=$(SHARE) $(WITH_KILLS) -m "$(OF_LEFT_OUT) or hypothesis" $(ARGS)

# Those of all tests, into the cache: the first test of Kafka or S3 would wait for them.
jars:
	$(PYTHON) tests/maven_jars.py

# What is not there is fetched: an environment for each Python, a folder for each PySpark, 4 GB in all, and with --pyarrow
# one for each PyArrow, 1.2 GB.
test-matrix: java $(VENV)/.installed-test
	$(BIN)/python tests/matrix.py $(ARGS)

# Executors that are processes of their own, which are killed.
test-cluster:
	@$(MAKE) --no-print-directory test ARGS='-m cluster $(ARGS)'

# The page and the figure are those of what was measured, even if a job fails the suite.
test-jobs: java $(VENV)/.installed-test
	@MIXEDMODE_JOBS_REFRESH=$(REFRESH) $(BIN)/python -m pytest tests/jobs -m jobs --numprocesses 2 --dist worksteal $(ARGS); \
	status=$$?; cd tests && "$(abspath $(BIN))/python" -m jobs.table && exit $$status

# Takes half an hour or more; the page is that of what was measured, even if a case fails the suite.
test-suites: java $(VENV)/.installed-test
	@$(BIN)/python -m pytest tests/suites -m suites --numprocesses 2 --dist worksteal $(ARGS); \
	status=$$?; cd tests && "$(abspath $(BIN))/python" -m suites.page && exit $$status

test-delta:
	@$(MAKE) --no-print-directory VENV=$(VENV_DELTA) test-of-tables

test-of-tables: java $(VENV)/.installed-test-delta
	$(BIN)/python -m pytest tests/lake --numprocesses $(JOBS_OF_TABLES) --dist loadfile --no-loadscope-reorder $(ARGS)

chaos: java $(VENV)/.installed-test
	$(BIN)/python tests/chaos/chaos.py --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# A benchmark takes as long as it takes: the time limit is for tests.
PYTEST_BENCH := $(BIN)/python -m pytest -o timeout=0

bench: java $(VENV)/.installed-bench
	$(PYTEST_BENCH) benchmarks --ignore=benchmarks/test_growth.py $(ARGS)

# What was measured is published even if a benchmark failed; the failure is told all the same.
bench-full: java $(VENV)/.installed-bench
	@export MIXEDMODE_BENCH_SIZE=full; $(PYTEST_BENCH) benchmarks --ignore=benchmarks/test_growth.py $(ARGS); \
	status=$$?; $(BIN)/python benchmarks/publish.py figures && exit $$status

# Once each, what is measured against plain Spark: MIXEDMODE_BENCH_RESUME=1 goes on where a run was stopped.
bench-backlogs: java $(VENV)/.installed-bench
	MIXEDMODE_BENCH_SIZE=brief $(PYTEST_BENCH) $(addprefix benchmarks/test_,engines.py keyed_rows.py cold.py generated.py) $(ARGS)

bench-growth: java $(VENV)/.installed-bench
	@export MIXEDMODE_BENCH_SIZE=full; $(PYTEST_BENCH) benchmarks/test_growth.py $(ARGS); \
	status=$$?; $(BIN)/python benchmarks/publish.py growth && exit $$status

# Once, by hand: those that are compared with are downloaded into build/peers (3 GB).
bench-peers: java $(VENV)/.installed-bench
	$(BIN)/python benchmarks/peers/run.py $(ARGS)

lint: $(VENV)/.installed-test build/typecheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd build/typecheck && "$(abspath $(BIN))/mypy" --config-file ../../pyproject.toml -p mixedmode -m typed_job

# Strict: a link to a page or a heading that is not there fails it.
docs: $(VENV)/.installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "build/site/index.html"

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks *.egg-info

# The virtual environment, and one stamp for each set of extras: installed again only after pyproject.toml changed.
# Two makes at the same time install one after the other; the second one finds that all is there.
ALONE := $(PYTHON) -c 'import fcntl, subprocess, sys; lock = open("build/.installing", "w"); \
  fcntl.flock(lock, fcntl.LOCK_EX); sys.exit(subprocess.call(["/bin/sh", "-c", sys.argv[1]]))'

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "mixedmode needs Python 3.10 or newer; '$(PYTHON)' was not found. Set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 10) or sys.exit("mixedmode needs Python 3.10 or newer, $(PYTHON) is %d.%d. Set PYTHON=..." % v[:2])'
	@mkdir -p build
	@$(ALONE) '[ -x $@ ] || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }' \
	|| { echo "Could not create $(VENV): the venv module is missing (Debian/Ubuntu: apt install python3-venv)."; exit 1; }

$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	@mkdir -p build
	@$(ALONE) '[ $@ -nt pyproject.toml ] || { $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]" && touch $@; }'

# The repository root is the package, so mypy gets a folder in which it has its name.
# Links to its parts instead of one link to the root: that one would contain itself.
.PHONY: build/typecheck
build/typecheck:
	@rm -rf $@ && mkdir -p $@/mixedmode
	@for part in $(filter-out setup.py,$(wildcard *.py)) py.typed planner runtime sorter state testing; do ln -s "../../../$$part" "$@/mixedmode/$$part"; done
	@ln -s ../../tests/typed_job.py $@/typed_job.py

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9._]*\).*/\1/p' | head -n 1); \
	major=$${version%%.*}; \
	if [ -z "$$version" ]; then \
	  echo "Spark needs Java 17 or newer; '$$java' was not found. Install one (Debian/Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME."; exit 1; \
	elif [ "$$major" -lt 17 ]; then \
	  echo "Spark needs Java 17 or newer; '$$java' is version $$version. Set JAVA_HOME to a newer one."; exit 1; \
	fi
