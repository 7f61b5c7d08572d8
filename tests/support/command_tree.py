"""Builds the tree of commands once a process. Typer builds it for every call, which is most of the time of a short one."""

from __future__ import annotations

import functools

import typer.main

typer.main.get_command = functools.cache(typer.main.get_command)
