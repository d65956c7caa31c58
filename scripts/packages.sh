# Sourced by ./run, ./test and .ci/run: installs the Debian packages that a step needs, and only those not there yet.

run_packages="g++ cmake ninja-build pkg-config libhwy-dev libtbb-dev nlohmann-json3-dev
  libcli11-dev libsentencepiece-dev libutf8proc-dev libpcre2-dev libzip-dev zlib1g-dev libpng-dev
  libcpp-httplib-dev libcairo2-dev libpango1.0-dev fonts-dejavu-core python3 ca-certificates"
python_packages="python3-venv python3-dev"
wheel_packages="dpkg-dev"
test_packages="libgtest-dev librapidcheck-dev libbenchmark-dev libopenmpi-dev openmpi-bin zsh mandoc curl
  python3-selenium chromium chromium-driver"
reference_packages="doxygen"
wasm_packages="emscripten nodejs cmake ninja-build libhwy-dev nlohmann-json3-dev libutf8proc-dev zlib1g-dev libgtest-dev
  python3"  # for scripts/build-wasm alone
ci_packages="clang clang-format libclang-rt-14-dev ccache eslint libopenblas-pthread-dev $reference_packages"
long_packages="libmpich-dev mpich slurm-wlm firefox-esr"  # for scripts/check-all
aarch64_packages="cmake ninja-build pkg-config g++-aarch64-linux-gnu qemu-user"
aarch64_libraries="libhwy-dev libhwy1 libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 libgtest-dev librapidcheck-dev"  # for arm64

# need_packages NAME...
need_packages() {
  local missing=() name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "needs these packages, and root to install them: ${missing[*]}" >&2; return 1; }
    sudo=(sudo)
  fi
  echo "installing: ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq >&2 &&
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}
