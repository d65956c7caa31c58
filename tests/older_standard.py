"""Under an older standard each public header is one clear error and the end of the compilation, not pages of errors.

older_standard.py COMPILER ROOT
"""
import pathlib
import subprocess
import sys

compiler, root = sys.argv[1], pathlib.Path(sys.argv[2])
failed = False
for header in sorted((root / "include/heed").glob("*.h")):
    done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-I", root / "include", "-x", "c++", "-"],
                          input=f'#include "heed/{header.name}"\n', capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    if done.returncode == 0 or len(errors) > 2 or "heed needs C++20" not in errors[0]:
        failed = True
        print(f"{header.name}: {len(errors)} errors, the first: {errors[0] if errors else 'none'}")
sys.exit(failed)
