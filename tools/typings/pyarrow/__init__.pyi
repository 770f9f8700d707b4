# Most of pyarrow is compiled and comes without types, and its compute functions are made only when it is loaded. So nothing can be
# known here, and these stubs say just that: any name may be there. They go when pyarrow brings its own.
from typing import Any

def __getattr__(name: str) -> Any: ...
