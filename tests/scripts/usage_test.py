"""--help of the commands in the repository's root: usage, and nothing else is done."""
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).parents[2]


class Usage(unittest.TestCase):
    def test_help_is_printed(self):
        for script, says in (("run", "./run "), ("test", "./test "), (".ci/run", "scripts/check-all")):
            for option in "--help", "-h":
                done = subprocess.run([ROOT / script, option], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      timeout=20, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), script)
                self.assertIn(says, done.stdout)
                self.assertNotIn("set -euo", done.stdout)

    def test_other_arguments_are_refused(self):
        for script, *arguments in (("run", "--sentence"), ("run", "El", "perro"), (".ci/run", "all")):
            done = subprocess.run([ROOT / script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=20, check=False)
            self.assertEqual(done.returncode, 2, script)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
