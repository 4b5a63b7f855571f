"""The tables of system calls against the kernel's own headers, where those are installed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tonearm.sandbox import syscalls
from tonearm.sandbox.rules import decoder_rules, resolver_rules
from tonearm.sandbox.syscalls import AARCH64, X86_64, Architecture

# The second is what linux-libc-dev has on all architectures: aarch64 takes its numbers from there.
HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/aarch64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"),
}
EVERYWHERE: Final = {
    "clone3": syscalls.CLONE3,
    "faccessat2": syscalls.FACCESSAT2,
    "landlock_create_ruleset": syscalls.LANDLOCK_CREATE_RULESET,
    "landlock_add_rule": syscalls.LANDLOCK_ADD_RULE,
    "landlock_restrict_self": syscalls.LANDLOCK_RESTRICT_SELF,
}


def numbers_of(architecture: str) -> dict[str, int]:
    """By name. Of the names that the generic header has for two sizes of pointers, the one for 64 bits."""
    for path in map(Path, HEADERS[architecture]):
        if path.exists():
            break
    else:
        pytest.skip(f"the kernel's headers for {architecture} (linux-libc-dev) are not installed")
    defined = dict(re.findall(r"^#define\s+(__NR\w*)\s+(\w+)", path.read_text(), re.MULTILINE))
    found = {}
    for name, value in defined.items():
        while value in defined:
            value = defined[value]
        if name.startswith("__NR_") and value.isdigit():
            found[name.removeprefix("__NR_")] = int(value)
    return found


@pytest.mark.parametrize("architecture", [X86_64, AARCH64], ids=lambda given: str(given.name))
def test_each_number_is_the_kernels(architecture: Architecture) -> None:
    kernel = numbers_of(architecture.name)
    assert len(kernel) > 250
    for name, number in {**architecture.calls, **EVERYWHERE}.items():
        assert kernel[name] == number, name


def test_what_is_missing_in_a_table_is_missing_in_the_kernel() -> None:
    kernel = numbers_of("aarch64")
    assert not [name for name in X86_64.calls.keys() - AARCH64.calls.keys() if name in kernel]


def test_the_rules_name_calls_of_the_tables_only() -> None:
    for rules in (decoder_rules(1), resolver_rules(1)):
        assert (rules.allowed.keys() | rules.refused) <= X86_64.calls.keys() | AARCH64.calls.keys()
        assert not rules.allowed.keys() & rules.refused
