# tests of view
