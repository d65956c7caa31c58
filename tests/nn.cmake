# tests of nn
