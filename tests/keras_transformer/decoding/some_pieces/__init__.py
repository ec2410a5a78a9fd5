"""Searches that say some pieces alone: tests of output layers of some."""
