"""These tests run where they are asked for, by scripts/test-torch: other runs of python/tests do without torch."""
import pathlib

HERE = pathlib.Path(__file__).parent.resolve()


def pytest_ignore_collect(config):
    asked = (pathlib.Path(argument.partition("::")[0]).resolve() for argument in config.args)
    return None if any(path.is_relative_to(HERE) for path in asked) else True
