"""How many files and connections a broker's own process may have open.

Systems give a program 1,024 or fewer unless it asks for more, up to a hard limit. A broker with its default of 1,000 streams meets that
under load, and where connections have taken all, the next segment cannot be opened either. So it asks for all that it may have.
"""

from __future__ import annotations

import resource
from typing import Final

_ENOUGH: Final = 1 << 20
"""Some systems allow billions, and some libraries walk through all that are allowed."""


def allow_open_files() -> int:
    """As many as this process may have, for the whole of it, so only for one that is ours; gives the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
