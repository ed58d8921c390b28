#!/usr/bin/env bash
# stream_app: CDC from Kafka into Apache Paimon tables, compacted while it is written.
# Needs Python 3.11 or newer and Java 17 or newer; fetches all the rest by itself, once.
set -euo pipefail
trap 'exit 130' INT
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${STREAM_APP_VENV:-$here/.venv}
fast='not java and not spark and not kafka' # marks of tests

help() {
  local python; python=$(find_python)
  sed -n '2,3s/^# //p' "$here/run.sh"
  printf '\nusage: ./run.sh VERB [ARGUMENTS]     (./run.sh VERB --help tells more)\n\n'
  "$python" -I "$here/stream_app/app/cli/verb_list.py"
  printf '\nfor developers:\n'
  sed -nE 's/^  ([a-z-]+)\)[^#]*# (.*)$/\1\t\2/p' "$here/run.sh" |
    while IFS=$'\t' read -r verb meaning; do printf '  %-19s %s\n' "$verb" "$meaning"; done
}
stop() { printf 'run.sh: %s\n' "$@" >&2; exit 2; }
# The first Python that is new enough and can make a virtual environment.
find_python() {
  local candidate broken=
  for candidate in ${PYTHON:+"$PYTHON"} python3.14 python3.13 python3.12 python3.11 python3; do
    # Version managers leave shims that exist and fail, so each is run rather than looked up.
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then echo "$candidate"; return; fi
    broken=$candidate
  done
  [ -z "$broken" ] || stop "$broken cannot make virtual environments (no ensurepip)." \
    "Debian, Ubuntu: apt-get install python3-venv"
  stop 'no Python 3.11 or newer (python3.14, python3.13, python3.12, python3.11, python3, or $PYTHON).' \
    'Debian, Ubuntu: apt-get install python3 python3-venv    macOS: brew install python@3.12'
}

find_java() {
  local said; said=$("$1" -version 2>&1) || stop "no Java 17 or newer: '$1' does not run (\$JAVA_HOME, or java in the path)." \
    'Debian, Ubuntu: apt-get install openjdk-17-jdk-headless    macOS: brew install openjdk@17'
  [[ $said =~ version\ \"([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 17 ] ||
    stop "Java 17 or newer is needed; '$1' is: ${said%%$'\n'*}" \
      'Debian, Ubuntu: apt-get install openjdk-17-jdk-headless    macOS: brew install openjdk@17, and set JAVA_HOME'
}

say() { printf 'run.sh: %s\n' "$@" >&2; }
# Runs a module: PYTHON MODULE ARGUMENTS. Ctrl-C ends it at once, without a trace.
run_module() {
  local python=$1; shift
  "$python" -I -c 'import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); import runpy, sys
del sys.argv[0]; runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)' "$@" >&2
}
# Installs pinned packages and stream_app. The mark outlives an interruption: pip takes a half unpacked
# package for an installed one, so such an environment is made again.
set_up() {
  local python=$venv/bin/python site pip=(pip --disable-pip-version-check --no-input install)
  if ! "$python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || [ -e "$venv/incomplete" ]; then
    python=$(find_python)
    say "making $venv with $("$python" -V)"
    run_module "$python" venv --clear "$venv"
    python=$venv/bin/python
  fi
  touch "$venv/incomplete"
  say "fetching $(cat "$@" | grep -c ==) pinned packages, about 820 MB when nothing is cached"
  # The locks are complete (--no-deps): pip would ask for the newest release of what another names with an extra.
  run_module "$python" "${pip[@]}" --use-pep517 --no-deps "${@/#/-r}"
  say "installing stream_app itself"
  run_module "$python" "${pip[@]}" --quiet --no-deps --no-build-isolation -e "$here"
  site=$(echo "$venv"/lib/python3.*/site-packages)
  # Else Spark starts the path's python3 for its workers, in which nothing is installed.
  echo 'import os, sys; os.environ.setdefault("PYSPARK_PYTHON", sys.executable)' > "$site/stream_app_workers.pth"
  rm "$venv/incomplete"
}

# Makes the virtual environment again only when what it is made from has changed. Looks at Java once, unless told not to.
prepare() {
  local java=java stamp locks=("$here/conf/requirements.lock")
  [ "$1" = dev ] && locks+=("$here/conf/requirements-dev.lock")
  [ -n "${JAVA_HOME:-}" ] && java=$JAVA_HOME/bin/java
  [ "${2:-}" = without-java ] || [ "$(cat "$venv/stamp-java" 2>/dev/null || echo none)" = "$(command -v "$java")" ] || find_java "$java"
  stamp="$here ${STREAM_APP_PYSPARK:-} $(cat "${locks[@]}" "$here/pyproject.toml" | cksum)"
  if [ "$(cat "$venv/stamp-$1" 2>/dev/null)" != "$stamp" ]; then
    set_up "${locks[@]}"
    [ -z "${STREAM_APP_PYSPARK:-}" ] || # another Spark than the pinned one, for trials
      "$venv/bin/python" -m pip install -q --disable-pip-version-check "pyspark==$STREAM_APP_PYSPARK" >&2
    echo "$stamp" > "$venv/stamp-$1"
  fi
  [ "${2:-}" = without-java ] || command -v "$java" > "$venv/stamp-java"
  # Spark starts its workers, and spark-submit its helpers, with the python3 of the path otherwise.
  export PATH="$venv/bin:$PATH" PYSPARK_PYTHON="$venv/bin/python" PYSPARK_DRIVER_PYTHON="$venv/bin/python"
  # The pinned Spark, whatever else is installed; its own scripts do not find it in a path with spaces.
  SPARK_HOME=$(echo "$venv"/lib/python3.*/site-packages/pyspark)
  export SPARK_HOME
  # A driver binds the host name's address, which laptops and containers often cannot reach.
  export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
}

check() {
  python -m ruff check . && python -m ruff format --check . && python -m mypy && lint-imports
}
compile() { exec python -P -m stream_app.app.launch.compile_ahead >&2; }
app() { prepare run; [[ " $* " != " demo"*" --catalog "* ]] || python -c 'import pyiceberg' 2> /dev/null || # an extra
  python -m pip install -q 'pyiceberg[pyarrow,snappy]==0.12.0' >&2; exec python -P -m stream_app "$@"; }

verb=${1:-help}; [[ $verb != -h && $verb != --help ]] || verb=help
case $verb in
  help) help ;; # this text
  setup) prepare run; prepare dev; python -P -m stream_app.app.launch.jars kafka-broker > /dev/null; python -P -m stream_app.app.launch.class_archive > /dev/null; compile ;; # fetch and compile everything now: packages, jars, machine code
  check) # without a table, of the code: lint, format, types, import contracts
    [ $# -eq 1 ] || app "$@"
    prepare dev without-java; cd "$here"; check ;;
  test) # check, then all tests; the fast ones, or those of one folder: test [--thorough|quick|unit|datadriven|interop|…]
    shift; case ${1:-} in quick | unit | datadriven | tidy) prepare dev without-java ;; *) prepare dev ;; esac
    cd "$here"; [[ $# -gt 0 && $1 != --thorough ]] || { compile & trap "kill $! 2> /dev/null" EXIT; check; wait; trap - EXIT; exec python -m pytest -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder "$@"; }
    [ "$1" != quick ] || exec python -m pytest tests/tidy tests/datadriven tests/unit \
      -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder -q -m "$fast and not slow" "${@:2}"
    [ -e "tests/$1" ] || { echo "run.sh: no tests/$1; there are: $(cd tests && ls -d */ | tr -d '\n')" >&2; exit 2; }
    exec python -m pytest "tests/$1" "${@:2}" ;;
  coverage) shift; prepare dev without-java; cd "$here" # lines and branches that the fast tests reach, and a floor: coverage
    exec python -m pytest tests/datadriven tests/unit tests/scenarios -q --cov --cov-report=term -m "$fast" "$@" ;;
  docs) shift; prepare dev without-java; cd "$here"; export NO_MKDOCS_2_WARNING=1 # build the documentation's site: docs [--serve]
    [ "${1:-}" != --serve ] || exec mkdocs serve; exec mkdocs build --quiet "$@" ;;
  simulate) shift; prepare dev; cd "$here"; exec python -m tests.simulation "$@" ;; # a table through faults and crashes: simulate [--seeds N] [--from S] [--seed S]
  bench) shift; prepare dev; cd "$here"; exec python -m bench "$@" ;; # measure each step beside its limit
  soak) shift; prepare dev; cd "$here"; exec python -m tests.soak "$@" ;; # the job for long, killed at random and judged: soak --minutes 30
  proof) shift; prepare dev; cd "$here"; exec python -m tests.testbed "$@" ;; # two databases through one job, killed at random and compared: proof --minutes 10
  *) app "$@" ;;
esac
