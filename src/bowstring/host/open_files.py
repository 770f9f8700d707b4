"""How many files and connections a broker's own process may have open.

Systems give a program 1,024 or fewer unless it asks for more, up to a hard limit. A broker with its
default of 1,000 streams reaches that limit under load, and once connections have used it up, the
broker cannot open the next segment either. So it raises its limit to the hard limit.
"""

from __future__ import annotations

import resource
from typing import Final

_ENOUGH: Final = 1 << 20
"""Some systems allow billions, and some libraries loop over all allowed descriptors."""


def allow_open_files() -> int:
    """Raises the limit of the whole process, so call it only in a process of our own. Returns the
    limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
