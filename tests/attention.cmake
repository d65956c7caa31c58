# tests of attention
