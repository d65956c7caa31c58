"""What only installed wheels have: their libraries, the command, the bundled model, licences (scripts/test-wheel)."""
import os
import pathlib
import re
import signal
import subprocess
import sys
from importlib import metadata

import heed
import pytest

COMMAND = pathlib.Path(sys.executable).with_name("heed")
PACKAGE = pathlib.Path(heed.__file__).parent
# The C and C++ libraries of every Linux, and zlib, which the tag of the wheel asks for.
SYSTEM = re.compile(r"(ld-linux-.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z))\.so\b.*")


def command(*arguments, text="", **environment):
    kept = {name: value for name, value in os.environ.items() if name != "HEED_MODEL"}
    return subprocess.run([COMMAND, *arguments], input=text, env=kept | environment, capture_output=True, text=True,
                          timeout=120, check=False)


def foreign(paths):
    """Libraries that are neither the wheels' nor Python's own nor every system's."""
    site = str(PACKAGE.parent)
    outside = [path for path in paths if not path.startswith(site) and "/lib-dynload/" not in path]
    return [path for path in outside if not SYSTEM.fullmatch(os.path.basename(path))]


def test_version_is_that_of_the_package():
    assert heed.__version__ == metadata.version("heed-attention")
    assert command("--version").stdout.split()[1] == heed.__version__


def test_importing_loads_nothing_from_elsewhere():
    program = """if True:
        import numpy, os  # which bring libraries of their own, and Python's
        def libraries():
            with open("/proc/self/maps") as maps:
                return {line.split()[-1] for line in maps if ".so" in line}
        before = libraries()
        import heed
        print(*libraries() - before, sep="\\n")"""
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert any("/_heed." in path for path in loaded) and any("libtbb" in path for path in loaded)
    assert not foreign(loaded)


def test_the_command_loads_nothing_from_elsewhere():
    lines = subprocess.run(["ldd", PACKAGE / "heed"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) > 5 and not any("not found" in line for line in lines)
    assert not foreign([line.split(" => ")[-1].split(" (")[0].strip() for line in lines if "linux-vdso" not in line])


def test_the_command_becomes_the_program():
    """The same process, which ignores SIGPIPE and SIGXFSZ alone, and SIGINT ends it."""
    def in_the_foreground():  # a job in the background ignores them, and so would its children
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)

    with subprocess.Popen([COMMAND, "translate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          preexec_fn=in_the_foreground) as started:
        started.stdin.write("Hola, mi nombre es Alex.\n")
        started.stdin.flush()
        assert "Alex" in started.stdout.readline()
        of_process = pathlib.Path("/proc", str(started.pid))
        assert os.readlink(of_process / "exe") == str(PACKAGE / "heed")
        ignored = re.search(r"^SigIgn:\s*(\w+)$", (of_process / "status").read_text(), re.MULTILINE)
        by_the_program = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
        assert int(ignored[1], 16) == by_the_program
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == -signal.SIGINT


def test_exit_status_and_arguments():
    wrong = command("translate", "--beam", "many words")
    assert wrong.returncode == 2 and "many words" in wrong.stderr and not wrong.stdout
    assert command("inspect", "/nowhere").returncode == 1


def test_the_bundled_model():
    model = heed.bundled_model()
    assert os.path.basename(model) == "heed_spa_eng" and "model.safetensors" in os.listdir(model)
    done = command("translate", text="Hola, mi nombre es Alex.\nNo sé qué decir.\n")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2 and "Alex" in done.stdout
    assert done.stdout == command("translate", "--model", model,
                                  text="Hola, mi nombre es Alex.\nNo sé qué decir.\n").stdout


def test_a_bundled_model_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "heed_spa_eng", None)
    with pytest.raises(heed.IoError, match="heed-attention-spa-eng is not installed; install its wheel"):
        heed.bundled_model()


def test_pictures_take_the_systems_libraries(tmp_path):
    done = command("attend", "El perro", "--cross", "--png", tmp_path / "map.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "libpangocairo-1.0.so.0").touch()
    failed = command("attend", "El perro", "--cross", "--png", tmp_path / "none.png", LD_LIBRARY_PATH=str(tmp_path))
    assert failed.returncode == 1 and "apt install libpangocairo-1.0-0" in failed.stderr
    assert not (tmp_path / "none.png").exists()


def test_parts_that_are_left_out_say_what_to_do(tmp_path):
    serve = command("serve")
    ranks = command("train", "--pairs", tmp_path / "pairs.tsv", "--model", tmp_path / "m", OMPI_COMM_WORLD_SIZE="2")
    for failed, says in [(serve, "the Python package has no server; build heed with CMake"),
                         (ranks, "the Python package has no MPI; build heed with CMake")]:
        assert failed.returncode in (1, 2) and says in failed.stderr and "apt install" not in failed.stderr


def test_one_file_for_each_thing():
    libraries = sorted(path.name.partition(".")[0] for path in PACKAGE.glob("*.so*"))
    assert libraries == ["_heed", "libheed", "libheed_pictures"]


def test_licences_of_all_that_is_inside():
    files = [pathlib.PurePosixPath(file) for file in metadata.files("heed-attention")]
    libraries = [re.sub(r"-[0-9a-f]{8}\.so.*", "", file.name) for file in files if file.parts[0].endswith(".libs")]
    licences = {file.name for file in files if "licenses" in file.parts}
    assert {"libtbb", "libsentencepiece", "libutf8proc", "libpcre2-8"} <= set(libraries) and "libhwy" not in libraries
    assert {"LICENSE", "NOTICE", "nanobind", "robin-map", "nlohmann-json3-dev", "libtbb12", "libhwy-dev",
            "libsentencepiece0"} <= licences
    assert "tatoeba" in metadata.distribution("heed-attention-spa-eng").read_text("licenses/NOTICE")
