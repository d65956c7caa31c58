"""The environment of builds that scripts make, so that they share compiled files with .ci/run."""
import os
import shutil


def use(root):
    """Sets os.environ for builds of the checkout `root`: the compiler's name, flags of the Python package and, where
    ccache is installed, its settings. They are those of .ci/run."""
    os.environ.update(CXX="g++", SKBUILD_CMAKE_BUILD_TYPE="RelWithDebInfo",
                      SKBUILD_CMAKE_ARGS="-DHEED_DEBUG_INFO=OFF;-DCMAKE_COMPILE_WARNING_AS_ERROR=ON")
    if shutil.which("ccache"):
        os.environ.update(CMAKE_CXX_COMPILER_LAUNCHER="ccache", CCACHE_NOHASHDIR="1", CCACHE_BASEDIR=str(root),
                          CCACHE_SLOPPINESS="pch_defines,time_macros")
