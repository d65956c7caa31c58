# Sourced by ./test, scripts/test-python, scripts/test-torch, scripts/test-notebooks and scripts/fuzz-python: the
# environment in which the package for Python is built and tested.

# python_environment CHECKOUT [PACKAGE...]: sets $python to the interpreter of build/python/venv, with what building and
# testing need and further packages. Needs $python_packages.
python_environment() {
  local venv=$1/build/python/venv
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --requirement "$1/python/tests/requirements.txt" "${@:2}"
  python=$venv/bin/python
}
