# Sourced by ./run and ./test: builds a preset, shows how far it is, and prints a failure's error before anything else.

# build PRESET [OPTION...]: with options for its configuration. The whole output goes to build/PRESET.log, where an error's
# context is.
build() {
  local log=build/$1.log
  mkdir -p build
  if { cmake --preset "$@" && cmake --build --preset "$1"; } 2>&1 | tee "$log" | show_steps; then return 0; fi
  first_error "$log" >&2
  echo "the build failed; the whole log is in $log" >&2
  return 1
}

# Ninja's [12/338] as one line that is written over or, where standard error goes to a file, a line every tenth. Ends with
# success: whether the build did is the pipe's other end's to say (set -o pipefail).
show_steps() {
  local begin=$SECONDS line step steps text tenth=0 interactive=
  [ -t 2 ] && interactive=yes
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    step=${BASH_REMATCH[1]} steps=${BASH_REMATCH[2]}
    text="building: step $step of $steps, $((SECONDS - begin)) s"
    if [ -n "$interactive" ]; then
      printf '\r%s' "$text" >&2
    elif [ "$steps" -ge 10 ] && [ $((10 * step / steps)) -gt "$tenth" ]; then
      tenth=$((10 * step / steps))
      echo "$text" >&2
    fi
  done
  [ -z "$interactive" ] || [ -z "${text-}" ] || echo >&2
}

# The first error of a build's log and the lines after it: what the compiler said, not its command line.
first_error() {
  grep -E -m 1 -A 14 '(^|[ :])((fatal )?error:|undefined reference)|^CMake Error' "$1" || tail -n 40 "$1"
}
