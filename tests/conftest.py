"""What every test shares: as little as possible.

Fixtures live beside the tests that use them. Here are only the two ways in which hypothesis draws its examples. `make test` is
derandomised, so that a red run is red again for whoever looks at it next; `make test-long` looks for new examples, and many more.
Neither has a deadline, because a loaded machine is no bug, and neither keeps a database, because tests leave nothing behind.
"""

from __future__ import annotations

import os
import signal

# As the product has it (`wire.grpc_library`), also where a test imports gRPC before the product does: gRPC's handlers break forks, and
# Spark forks to start its JVM.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from hypothesis import settings

settings.register_profile("test", derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=2_000, deadline=None, database=None, print_blob=True)
settings.load_profile("test")

# Some tests send these signals to their children, which inherit how this process takes them. A run that was started in the background of
# a script, or by nohup, ignores them.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
