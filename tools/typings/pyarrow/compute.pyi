# As in __init__.pyi: any name may be there.
from typing import Any

def __getattr__(name: str) -> Any: ...
