"""How this repository is set up, checked and documented: what the Makefile and `.ci/run` call.

Everything that has to run before there is an environment (`environment`, `system`, `bounded`, `changelog`) uses the standard
library alone; the rest runs in `.venv`. Nothing here is part of the wheel.
"""
